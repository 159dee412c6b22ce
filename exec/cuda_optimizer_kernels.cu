#include "exec/cuda_optimizer_kernels.h"

#include "exec/cuda_each.cuh"
#include "exec/cuda_gradient_check.cuh"

namespace unlatch::exec::cuda {
namespace {

template <class Rule>
struct StepEach {
  static constexpr std::size_t floats = sizeof(rules::Step<Rule>) / sizeof(float);
  rules::Step<Rule> step;
  float
      filler[floats % 2 == 0 ? 2 : 1];  ///< in front of pointers: no padding, which holds anything
  StagePointers stage;
  const GradientCheck* check;
  __device__ void operator()(std::size_t i) const {
    if (!leaves_out(check)) step.apply(stage.weights[i], stage.gradient[i], stage.slots(i));
    stage.gradient[i] = 0;
  }
};

/// A block a piece: each thread its share, then pairs of shares until one is left.
template <class Rule>
__global__ void measure_pieces(Rule rule, StagePointers stage, TensorTables tables,
                               const GradientCheck* check) {
  __shared__ PieceSquares shares[block];
  const unsigned thread = threadIdx.x;
  shares[thread] = leaves_out(check)
                       ? PieceSquares{}
                       : measured_share(rule, tables, stage, blockIdx.x, thread, block);
  for (unsigned half = block / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) shares[thread] = sum_of(shares[thread], shares[thread + half]);
  }
  if (thread == 0) tables.squares[blockIdx.x] = shares[0];
}

template <class Rule>
struct FindRatio {
  Rule rule;
  TensorTables tables;
  __device__ void operator()(std::size_t tensor) const {
    tables.ratios[tensor] = trust_ratio(rule, tables, tensor);
  }
};

/// A block a piece. The check is the last argument but one, which tells it from measure_pieces.
template <class Rule>
__global__ void step_pieces(Rule rule, StagePointers stage, const GradientCheck* check,
                            TensorTables tables) {
  step_share(rule, tables, stage, blockIdx.x, threadIdx.x, block, leaves_out(check));
}

struct Coast {
  float factor;
  const float* velocity;
  float* weights;
  __device__ void operator()(std::size_t i) const { weights[i] -= factor * velocity[i]; }
};

}  // namespace

template <class Rule>
void launch_step(StreamHandle stream, rules::Step<Rule> step, StagePointers stage,
                 GradientCheck* check) {
  if (check != nullptr) launch(stream, stage.n, LookForNotFinite{stage.gradient, check});
  launch(stream, stage.n, StepEach<Rule>{step, {}, stage, check});
  if (check != nullptr) launch(stream, 1, EndStep{check});
}

template <class Rule>
void launch_tensor_step(StreamHandle stream, Rule rule, StagePointers stage, TensorTables tables,
                        GradientCheck* check) {
  if (stage.n == 0) return;
  const GradientCheck* seen = check;
  if (check != nullptr) launch(stream, stage.n, LookForNotFinite{stage.gradient, check});
  start<measure_pieces<Rule>>(stream, tables.piece_count, block, rule, stage, tables, seen);
  launch(stream, tables.tensor_count, FindRatio<Rule>{rule, tables});
  start<step_pieces<Rule>>(stream, tables.piece_count, block, rule, stage, seen, tables);
  if (check != nullptr) launch(stream, 1, EndStep{check});
}

#define UNLATCH_STEP(Rule)                                                                \
  template void launch_step(StreamHandle, rules::Step<rules::Rule<float>>, StagePointers, \
                            GradientCheck*)
UNLATCH_STEP(Sgd);
UNLATCH_STEP(Velocity);
UNLATCH_STEP(AdaGrad);
UNLATCH_STEP(AdaDelta);
UNLATCH_STEP(RmsProp);
UNLATCH_STEP(Adam);
UNLATCH_STEP(AdamW);
UNLATCH_STEP(AmsGrad);
UNLATCH_STEP(AdaMax);
UNLATCH_STEP(NAdam);
UNLATCH_STEP(RAdam);
#undef UNLATCH_STEP

template void launch_tensor_step(StreamHandle, rules::Lars<float>, StagePointers, TensorTables,
                                 GradientCheck*);
template void launch_tensor_step(StreamHandle, rules::Lamb<float>, StagePointers, TensorTables,
                                 GradientCheck*);

void launch_coast(StreamHandle stream, float factor, const float* velocity, float* weights,
                  std::size_t n) {
  launch(stream, n, Coast{factor, velocity, weights});
}

}  // namespace unlatch::exec::cuda
