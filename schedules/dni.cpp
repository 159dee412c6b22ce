// DNI: every stage trains on a prediction of its output's gradient; the next stage's gradient only
// trains the predictor.
//
// Jaderberg et al., ICML 2017 (arXiv 1608.05343). Breaks the backward and update locks. Step n of a
// stage: F(n), the synthesiser learns from the gradient of batch n - delta, B(n), U(n); larger
// deltas hide the way of that gradient. Conditional DNI also shows the label to the synthesiser.
#include "schedules/error.h"
#include "schedules/schedules.h"

namespace unlatch {
namespace {

int delta(const Options& options) { return static_cast<int>(options.number("delta")); }

Schedule dni(const Shape& shape, const Options& options) {
  Schedule schedule("dni", shape);
  schedule.learning().local_gradients = {.source = GradientSource::synthesiser,
                                         .conditional = options.is("conditional", "yes"),
                                         .rate = options.number("synth_lr")};
  for (const Stage k : up_to<Stage>(shape.stages)) {
    Program& program = schedule.of(k);
    for (int n = 0; n < shape.batches + (shape.drain ? delta(options) : 0); ++n) {
      if (n < shape.batches) program.forward(k, {n});
      const MicroBatch learnt{n - delta(options)};
      const bool learns = learnt.value >= 0 && learnt.value < shape.batches;
      if (learns && k < shape.last_stage()) program.pop_backward(k, learnt);
      if (n >= shape.batches) continue;
      program.backward(k, {n});
      if (k > Stage{0}) program.push_backward(k, {n});
      program.update(k, {n}).next_step();
    }
  }
  return schedule;
}

void resolve(const Shape&, Options& options) {
  constexpr int most = 1'000'000;
  whole_number(options, "dni", "delta", 1, most);
  require(options.number("synth_lr") >= 0, "dni: synth_lr={} must not be negative",
          options.number("synth_lr"));
}

Promise promise(const Shape& shape, const Options&) {
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  return {zero, zero, one, one, zero};
}

}  // namespace

Method dni_method() {
  return {.name = "dni",
          .title = "Decoupled neural interfaces (synthetic gradients)",
          .source = "Jaderberg et al., ICML 2017, arXiv 1608.05343",
          .breaks = {.backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "0",
          .memory = "1 tape, 1 version, a synthesiser, delta+1 outputs",
          .keys = {{.name = "conditional",
                    .words = {"no", "yes"},
                    .help = "the synthesiser sees the label too"},
                   {.name = "delta",
                    .type = Key::Type::number,
                    .default_number = 1,
                    .help = "batches until a synthesiser learns from the gradient of one"},
                   {.name = "synth_lr",
                    .type = Key::Type::number,
                    .default_number = 0.1,
                    .help = "learning rate of the synthesisers"}},
          .resolve = resolve,
          .make = dni,
          .promise = promise};
}

}  // namespace unlatch
