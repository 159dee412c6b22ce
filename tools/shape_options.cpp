#include "tools/shape_options.h"

#include "schedules/error.h"
#include "sim/units.h"
#include "tools/machine.h"
#include "tools/placed_errors.h"

namespace unlatch::tools {
namespace {

/// More stages than any machine has ranks; keeps the lists of one value a stage small.
constexpr int most_stages = 1 << 20;

}  // namespace

void read_stages(const Arguments& arguments, int usual_chunks, int otherwise, Shape& shape) {
  const int chunks = arguments.whole("chunks", usual_chunks, 1, most_stages);
  const bool has_stages = arguments.has("stages"), has_ranks = arguments.has("ranks");
  const int ranks = arguments.whole("ranks", 1, 1, most_stages);
  const int stages = arguments.whole("stages", has_ranks ? 1 : otherwise, 1, most_stages);
  shape.chunks = chunks;
  shape.stages = stages;
  if (has_ranks && !has_stages) {
    require(ranks <= most_stages / chunks, "{} {} x {} {}: at most {} stages",
            arguments.place("ranks"), ranks, arguments.place("chunks"), chunks, most_stages);
    shape.stages = ranks * chunks;
    return;
  }
  if (has_ranks && !arguments.has("chunks")) {
    require(stages % ranks == 0,
            "{} {} is no multiple of {} {}: every rank holds stages / ranks chunks",
            arguments.place("stages"), stages, arguments.place("ranks"), ranks);
    shape.chunks = stages / ranks;
  }
  require(shape.stages % shape.chunks == 0,
          "{} {} is no multiple of {} {}: every rank holds that many stages",
          arguments.place("stages"), stages, arguments.place("chunks"), shape.chunks);
  require(!has_ranks || shape.ranks() == ranks,
          "{} {}, {} {} and {} {} contradict each other: stages = ranks x chunks, so leave one of "
          "them out",
          arguments.place("stages"), stages, arguments.place("ranks"), ranks,
          arguments.place("chunks"), chunks);
}

Shape usual_shape(const ScheduleSpec& spec, int stages, int batches) {
  Shape shape{.stages = stages, .batches = batches};
  const auto& own = spec.method().own_shape;
  if (!own) return shape;
  shape = *own;
  if (own->batches == 1) shape.batches = batches;
  return shape;
}

void require_buildable(const Shape& shape, const ScheduleSpec& spec) {
  // F, B and a share of U; what a schedule adds (R, queue places, messages) comes on top.
  const auto tasks =
      (2 * std::int64_t{shape.micro_batches} / shape.copies + 1) * shape.batches * shape.stages;
  require(tasks <= Edge::max_tasks,
          "{}: {} stages x {} micro-batches x {} batches need at least {} tasks, a graph holds at "
          "most {}; lower --stages, --microbatches or --batches",
          spec.text(), shape.stages, shape.micro_batches, shape.batches, tasks, Edge::max_tasks);
  // Peak of `simulate` on 1F1B with one batch of 131072 micro-batches, 8 stages: graph, timeline,
  // and the longer run that finds the steady state. DSP needs 260.
  constexpr std::int64_t bytes_a_task = 320;
  const std::int64_t machine = memory_bytes();
  require(tasks * bytes_a_task <= machine,
          "{}: {} stages x {} micro-batches x {} batches need at least {} tasks and about {} of "
          "memory, this machine has {}; lower --stages, --microbatches or --batches, or take "
          "simulate --stream",
          spec.text(), shape.stages, shape.micro_batches, shape.batches, tasks,
          sim::format_size(tasks * bytes_a_task), sim::format_size(machine));
}

Shape read_shape(const Arguments& arguments, const ScheduleSpec& spec, bool synchronous,
                 int stages) {
  const Shape usual = usual_shape(spec, stages, synchronous ? 1 : 64);
  Shape shape;
  read_stages(arguments, spec.pipeline().chunks.usual, usual.stages, shape);
  shape.micro_batches = arguments.whole("microbatches", usual.micro_batches);
  shape.batches = arguments.whole("batches", usual.batches);
  shape.drain = arguments.yes("drain", usual.drain);
  shape.replicas = arguments.whole("replicas", usual.replicas, 1, most_stages);
  const auto copies = std::int64_t{shape.replicas} * spec.method().copies;
  require(shape.stages * copies <= most_stages,
          "{} stages of each of {} copies of the model are {}; a run has at most {}; lower "
          "--stages or --replicas",
          shape.stages, copies, shape.stages * copies, most_stages);
  const auto all = std::int64_t{shape.micro_batches} * shape.replicas * shape.batches;
  require(all < Edge::max_tasks, "{} {} x {} {} x {} {} = {} micro-batches; a run has at most {}",
          arguments.place("microbatches"), shape.micro_batches, arguments.place("replicas"),
          shape.replicas, arguments.place("batches"), shape.batches, all, Edge::max_tasks - 1);
  reading(arguments, "schedule", [&] { spec.options(shape); });  // refuses one that it cannot run
  if (!arguments.has("stream")) require_buildable(spec.effective(shape), spec);
  return shape;
}

}  // namespace unlatch::tools
