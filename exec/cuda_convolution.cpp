// Convolution by cuDNN; flat weights [out, in, kh, kw], then the bias. The algorithms are the
// fastest by cuDNN's own judgement among those whose workspace is within the limit and, unless it
// is asked otherwise, which give the same bits every time. Sums are float32 whatever the precision.
#include <utility>
#include <vector>

#include "exec/cuda_op.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

constexpr std::size_t most_workspace = std::size_t{256} << 20;

/// The first of cuDNN's list, which is sorted by its estimate of the time, that will do.
template <class Found>
const Found& choice(const std::vector<Found>& found, const DeviceSettings& settings,
                    const char* what) {
  for (const Found& one_of : found) {
    const bool exact = settings.precision != Precision::fp32 || one_of.mathType == CUDNN_FMA_MATH ||
                       one_of.mathType == CUDNN_DEFAULT_MATH;
    const bool same_bits = !settings.deterministic || one_of.determinism == CUDNN_DETERMINISTIC;
    if (one_of.status == CUDNN_STATUS_SUCCESS && exact && same_bits &&
        one_of.memory <= most_workspace) {
      return one_of;
    }
  }
  throw RunError(fmt::format("cuDNN has no {}algorithm for its {} within a workspace of {} bytes",
                             settings.deterministic ? "deterministic " : "", what, most_workspace));
}

struct Algorithms {
  cudnnConvolutionFwdAlgoPerf_t forward;
  cudnnConvolutionBwdDataAlgoPerf_t data;
  cudnnConvolutionBwdFilterAlgoPerf_t filter;
};

class Convolution : public Op {
 public:
  Convolution(const models::Convolution& layer, const Place& input, const Place& output)
      : Op(output), layer_(layer), input_(input), weights_(count(layer, input)) {
    describe(x_, input);
    describe(y_, output);
    check(cudnnSetFilter4dDescriptor(
              filter_.get(), cudnn_type(input.precision()), CUDNN_TENSOR_NCHW, layer.out_channels,
              input.shape.channels / layer.groups, layer.kernel, layer.kernel),
          "cudnnSetFilter4dDescriptor");
    check(cudnnSetConvolution2dDescriptor(convolution_.get(), layer.padding, layer.padding,
                                          layer.stride, layer.stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(convolution_.get(), layer.groups),
          "cudnnSetConvolutionGroupCount");
    choose_algorithms();
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const LayerWeights weights(device, flat.weights, weights_);
    const Tensor result = device.take(output().bytes());
    const Tensor space = device.take(algorithms_.forward.memory);
    device.call("cudnnConvolutionForward", cudnnConvolutionForward, device.dnn(), &one, x_.get(),
                device.read<void>(input.tensor), filter_.get(), weights.get(), convolution_.get(),
                algorithms_.forward.algo, device.write<void>(space), algorithms_.forward.memory,
                &zero, y_.get(), device.write<void>(result));
    if (layer_.bias) {
      device.launch(launch_add_bias, output().precision(), flat.weights + weights_,
                    device.write<void>(result), output().channels());
    }
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  /// W needs the input and the output's gradient.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    kept.tensors.push_back(gradient.tensor);
    if (!wants_input) return {};
    const LayerWeights weights(device, flat.weights, weights_);
    const Tensor result = device.take(input_.bytes());
    const Tensor space = device.take(algorithms_.data.memory);
    device.call("cudnnConvolutionBackwardData", cudnnConvolutionBackwardData, device.dnn(), &one,
                filter_.get(), weights.get(), y_.get(), device.read<void>(gradient.tensor),
                convolution_.get(), algorithms_.data.algo, device.write<void>(space),
                algorithms_.data.memory, &zero, x_.get(), device.write<void>(result));
    return {result, true};
  }

  /// cuDNN gives the filter's gradient in the precision of the run; in float32 it adds it itself.
  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    const Precision precision = output().precision();
    const bool adds = is_float32(precision);
    const Tensor space = device.take(algorithms_.filter.memory);
    const Tensor part = adds ? Tensor{} : device.take(weights_ * bytes_of(precision));
    device.call("cudnnConvolutionBackwardFilter", cudnnConvolutionBackwardFilter, device.dnn(),
                &one, x_.get(), device.read<void>(kept.tensors[0]), y_.get(),
                device.read<void>(kept.tensors[1]), convolution_.get(), algorithms_.filter.algo,
                device.write<void>(space), algorithms_.filter.memory, adds ? &one : &zero,
                filter_.get(), adds ? flat.gradient : device.write<void>(part));
    if (!adds) {
      device.launch(launch_accumulate, precision, device.read<void>(part), flat.gradient, weights_);
    }
    if (!layer_.bias) return;
    device.launch(launch_add_channel_sums, precision, device.read<void>(kept.tensors[1]),
                  flat.gradient + weights_, output().channels());
  }

 private:
  static std::size_t count(const models::Convolution& layer, const Place& input) {
    return std::size_t{1} * layer.out_channels * (input.shape.channels / layer.groups) *
           layer.kernel * layer.kernel;
  }
  /// float32 may be multiplied in a shorter format only where that was asked for; what is shorter
  /// itself goes to the tensor cores.
  cudnnMathType_t math() const {
    if (!is_float32(input_.precision())) return CUDNN_TENSOR_OP_MATH;
    return input_.precision() == Precision::tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  }

  void choose_algorithms() {
    const DeviceSettings& settings = input_.device->settings();
    cudnnHandle_t dnn = input_.device->any_dnn();
    check(cudnnSetConvolutionMathType(convolution_.get(), math()), "cudnnSetConvolutionMathType");
    int n = 0;
    std::vector<cudnnConvolutionFwdAlgoPerf_t> forward(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
    check(cudnnGetConvolutionForwardAlgorithm_v7(dnn, x_.get(), filter_.get(), convolution_.get(),
                                                 y_.get(), static_cast<int>(forward.size()), &n,
                                                 forward.data()),
          "cudnnGetConvolutionForwardAlgorithm_v7");
    forward.resize(static_cast<std::size_t>(n));
    std::vector<cudnnConvolutionBwdDataAlgoPerf_t> data(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
    check(cudnnGetConvolutionBackwardDataAlgorithm_v7(
              dnn, filter_.get(), y_.get(), convolution_.get(), x_.get(),
              static_cast<int>(data.size()), &n, data.data()),
          "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    data.resize(static_cast<std::size_t>(n));
    std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> filter(
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
    check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              dnn, x_.get(), y_.get(), convolution_.get(), filter_.get(),
              static_cast<int>(filter.size()), &n, filter.data()),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    filter.resize(static_cast<std::size_t>(n));
    algorithms_ = {choice(forward, settings, "forward"), choice(data, settings, "input gradient"),
                   choice(filter, settings, "weight gradient")};
  }

  models::Convolution layer_;
  Place input_;
  std::size_t weights_;
  TensorDescriptor x_, y_;
  FilterDescriptor filter_;
  ConvolutionDescriptor convolution_;
  Algorithms algorithms_ = {};
};

}  // namespace

std::unique_ptr<Op> make_convolution(const models::Convolution& layer, const Place& input) {
  Place output = input;
  output.shape = models::output_shape({.name = "convolution", .kind = layer}, input.shape);
  return std::make_unique<Convolution>(layer, input, output);
}

}  // namespace unlatch::exec::cuda
