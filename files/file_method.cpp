// A schedule file as a method: one shape, no keys, promises read off its graph.
#include <algorithm>

#include "files/first_replica.h"
#include "files/repeat.h"
#include "files/schedule_file.h"
#include "schedules/error.h"
#include "schedules/properties.h"

namespace unlatch::files {
namespace {

/// The method, and the text that its name points into.
struct FileMethod {
  std::string name;
  Method method;
};

/// The size as commands ask for it: stages, chunks and micro-batches of one copy of the model, and
/// how many replicas the file holds.
Shape asked_form(Shape one_replica, int replicas) {
  one_replica.stages /= one_replica.copies;
  one_replica.chunks /= one_replica.copies;
  one_replica.copies = 1;
  one_replica.replicas = replicas;
  return one_replica;
}

/// What the file says of one replica; the others do the same.
Schedule schedule_of_one_replica(const ScheduleFile& file) {
  const Shape& shape = file.shape();
  std::optional<Schedule> one = first_replica(file.schedule(shape.batches));
  require(one.has_value(),
          "{} holds {} data-parallel replicas that do not do the same on ranks, stages and "
          "micro-batches of their own; write the schedule of one and ask for --replicas {}",
          file.path(), shape.replicas, shape.replicas);
  return std::move(*one);
}

void require_own_shape(const ScheduleFile& file, const Shape& own, bool synchronous,
                       const Shape& shape) {
  require(shape.stages == own.stages && shape.chunks == own.chunks &&
              shape.micro_batches == own.micro_batches,
          "{} holds {} stages on {} ranks with {} micro-batches a batch; {} stages on {} ranks "
          "with {} micro-batches were asked for; leave out --stages, --ranks, --chunks and "
          "--microbatches",
          file.path(), own.stages, own.ranks(), own.micro_batches, shape.stages, shape.ranks(),
          shape.micro_batches);
  require(
      own.batches == 1 || shape.batches == own.batches,
      "{0} holds {1} batches, {2} were asked for; leave --batches out, or give train --steps {1}",
      file.path(), own.batches, shape.batches);
  require(synchronous || shape.drain == own.drain,
          "{} was written for --drain {}; leave --drain out", file.path(),
          own.drain ? "yes" : "no");
}

Promise promise_of(const Properties& properties) {
  return {properties.forward_staleness, properties.weight_staleness, properties.weight_versions,
          properties.activations, properties.inputs};
}

}  // namespace

std::shared_ptr<const Method> method_of(std::shared_ptr<const ScheduleFile> file) {
  file->require_valid();
  const Shape& shape = file->shape();
  const auto one = std::make_shared<const Schedule>(schedule_of_one_replica(*file));
  const Shape mine = one->shape();
  const Properties own = properties(one->build());
  const bool synchronous = std::ranges::all_of(own.forward_staleness, [](int s) { return s == 0; });
  auto holder = std::make_shared<FileMethod>();
  holder->name = fmt::format("file:{}", file->path());
  const int chunks = mine.chunks / mine.copies;
  holder->method = {
      .name = holder->name,
      .title = "Schedule file",
      .source = holder->name,
      .breaks = {},
      .synchronous = synchronous,
      .uses_micro_batches = true,
      .chunks = {.usual = chunks, .least = chunks, .most = chunks},
      .copies = mine.copies,
      .staleness = "as in the file",
      .memory = "as in the file",
      .keys = {},
      .resolve = [file, mine, synchronous](
                     const Shape& asked,
                     Options&) { require_own_shape(*file, mine, synchronous, asked); },
      .make =
          [one](const Shape& asked, const Options&) {
            return asked.batches == one->shape().batches ? *one : repeated(*one, asked.batches);
          },
      .promise = [own](const Shape&, const Options&) { return promise_of(own); },
      .own_shape = asked_form(mine, shape.replicas)};
  return {holder, &holder->method};
}

}  // namespace unlatch::files
