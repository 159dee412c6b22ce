// DSP: each stage forwards one batch and, beside it, recomputes and backwards an older one.
//
// Xu, Huo and Huang, CVPR 2020 (arXiv 1909.02625), DSP(p_0..; m_0..). Breaks all three locks.
// Local step i of stage k: F(k,i) beside R(k,i-m_k), then B(k,i-m_k). Forward staleness m_k,
// weight staleness 0, 1+m_k inputs and one tape, one version. Queues towards stage k+1 hold
// 1+p_k activations, those back 1+q_k gradients, q_k = m_k - m_{k+1} - p_k.
#include <algorithm>

#include "schedules/error.h"
#include "schedules/staggered.h"

namespace unlatch {
namespace {

Schedule dsp(const Shape& shape, const Options& options) {
  const bool bounded = !options.is("queues", "unbounded");
  Staggered staggered{.specification = "dsp",
                      .lockstep = options.is("form", "lockstep"),
                      .behind = {0},
                      .delay = options.list("staleness"),
                      .forward_capacity = {},
                      .backward_capacity = {},
                      .replay = true};
  for (int k = 0; k + 1 < shape.stages; ++k) {
    const int p = bounded ? options.list("queues")[k] : 0;
    const int q = staggered.delay[k] - staggered.delay[k + 1] - p;
    staggered.behind.push_back(staggered.behind.back() + p);
    staggered.forward_capacity.push_back(bounded ? 1 + p : unbounded);
    staggered.backward_capacity.push_back(bounded ? 1 + q : unbounded);
  }
  return staggered.make(shape);
}

void require_length(const std::vector<int>& list, std::string_view key, const Shape& shape) {
  require(static_cast<int>(list.size()) == shape.stages,
          "dsp: {} lists {} values, one for each of the {} stages is needed", key, list.size(),
          shape.stages);
  require(list.back() == 0, "dsp: {} of the last stage is {}, it must be 0", key, list.back());
}

void resolve(const Shape& shape, Options& options) {
  if (options.find("staleness") == nullptr) {
    std::vector<int> m;
    for (int k = 0; k < shape.stages; ++k) m.push_back(2 * (shape.stages - 1 - k));
    options.set("staleness", m);
  }
  const std::vector<int> m = options.list("staleness");
  require_length(m, "staleness", shape);
  // A stage steps m_k times beyond its batches; more would take hours and then overflow.
  constexpr int most_staleness = 1'000'000;
  for (int k = 0; k < shape.stages; ++k) {
    require(m[k] <= most_staleness, "dsp: staleness of stage {} is {}, it may be at most {}", k,
            m[k], most_staleness);
  }
  for (int k = 0; k + 1 < shape.stages; ++k) {
    require(m[k] >= m[k + 1],
            "dsp: staleness must not grow along the stages; stage {} has {}, stage {} has {}", k,
            m[k], k + 1, m[k + 1]);
  }
  if (options.find("queues") == nullptr) {
    std::vector<int> p;
    for (int k = 0; k + 1 < shape.stages; ++k) p.push_back(std::min(1, m[k] - m[k + 1]));
    p.push_back(0);
    options.set("queues", p);
  }
  if (options.is("queues", "unbounded")) {
    require(options.is("form", "queue"),
            "dsp: queues=unbounded needs form=queue; the lock-step "
            "form takes its steps from p_k");
    return;
  }
  const std::vector<int> p = options.list("queues");
  require_length(p, "queues", shape);
  for (int k = 0; k + 1 < shape.stages; ++k) {
    require(p[k] <= m[k] - m[k + 1],
            "dsp: q_{} = m_{} - m_{} - p_{} = {} - {} - {} = {} must not be negative", k, k, k + 1,
            k, m[k], m[k + 1], p[k], m[k] - m[k + 1] - p[k]);
  }
}

Promise promise(const Shape& shape, const Options& options) {
  std::vector<int> staleness = options.list("staleness");
  const bool recomputes = staleness.front() > 0;
  for (int& m : staleness) m = std::min(m, shape.batches - 1);
  const std::vector<int> zero(shape.stages, 0), one(shape.stages, 1);
  std::vector<int> inputs = zero;
  for (int k = 0; recomputes && k < shape.stages; ++k) inputs[k] = 1 + staleness[k];
  return {staleness, zero, one, one, inputs};
}

}  // namespace

Method dsp_method() {
  return {.name = "dsp",
          .title = "Diversely stale parameters",
          .source = "Xu et al., CVPR 2020, arXiv 1909.02625",
          .breaks = {.forward = true, .backward = true, .update = true},
          .synchronous = false,
          .uses_micro_batches = false,
          .staleness = "m_k, by default 2(K-1-k)",
          .memory = "1+m_k inputs + 1 tape, 1 version",
          .keys = {{.name = "form",
                    .words = {"queue", "lockstep"},
                    .help = "queues between the stages, or a barrier a step"},
                   {.name = "staleness",
                    .type = Key::Type::per_stage,
                    .help = "m_0/../m_{K-1}; default 2(K-1-k)"},
                   {.name = "queues",
                    .type = Key::Type::per_stage,
                    .words = {"unbounded"},
                    .help = "p_0/../p_{K-1} or unbounded; default min(1, m_k - m_{k+1})"}},
          .resolve = resolve,
          .make = dsp,
          .promise = promise};
}

}  // namespace unlatch
