// A schedule file as a method: one shape, no keys, promises read off its graph.
#include <algorithm>

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

/// The size as commands ask for it: stages and chunks of one copy of the model.
Shape asked_form(Shape shape) {
  shape.stages /= shape.copies;
  shape.chunks /= shape.copies;
  shape.copies = 1;
  return shape;
}

void require_own_shape(const ScheduleFile& file, bool synchronous, const Shape& shape) {
  const Shape& own = file.shape();
  require(shape.stages == own.stages && shape.chunks == own.chunks &&
              shape.micro_batches == own.micro_batches,
          "{} holds {} stages on {} ranks with {} micro-batches a batch; {} stages on {} ranks "
          "with {} micro-batches were asked for; leave out --stages, --ranks, --chunks and "
          "--microbatches",
          file.path(), own.stages, own.ranks(), own.micro_batches, shape.stages, shape.ranks(),
          shape.micro_batches);
  require(own.batches == 1 || shape.batches == own.batches,
          "{} holds {} batches, {} were asked for; leave --batches out", file.path(), own.batches,
          shape.batches);
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
  require(shape.replicas == 1,
          "{} holds {} data-parallel replicas; write the schedule of one and ask for --replicas {}",
          file->path(), shape.replicas, shape.replicas);
  const Properties own = properties(file->schedule(shape.batches).build());
  const bool synchronous = std::ranges::all_of(own.forward_staleness, [](int s) { return s == 0; });
  auto holder = std::make_shared<FileMethod>();
  holder->name = fmt::format("file:{}", file->path());
  const int chunks = shape.chunks / shape.copies;
  holder->method = {
      .name = holder->name,
      .title = "Schedule file",
      .source = holder->name,
      .breaks = {},
      .synchronous = synchronous,
      .uses_micro_batches = true,
      .chunks = {.usual = chunks, .least = chunks, .most = chunks},
      .copies = shape.copies,
      .staleness = "as in the file",
      .memory = "as in the file",
      .keys = {},
      .resolve = [file, synchronous](const Shape& asked,
                                     Options&) { require_own_shape(*file, synchronous, asked); },
      .make = [file](const Shape& asked, const Options&) { return file->schedule(asked.batches); },
      .promise = [own](const Shape&, const Options&) { return promise_of(own); },
      .own_shape = asked_form(shape)};
  return {holder, &holder->method};
}

}  // namespace unlatch::files
