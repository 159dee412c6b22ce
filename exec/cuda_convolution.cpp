// Convolution by cuDNN; flat weights [out, in, kh, kw], then the bias. The algorithms are the
// fastest by cuDNN's own judgement among those that give the same bits every time and whose
// workspace is within the limit.
#include <utility>
#include <vector>

#include "exec/cuda_op.h"
#include "schedules/error.h"

namespace unlatch::exec::cuda {
namespace {

/// The first of cuDNN's list, which is sorted by its estimate of the time, that will do.
template <class Found>
const Found& choice(const std::vector<Found>& found, const DeviceOptions& options,
                    const char* what) {
  for (const Found& one_of : found) {
    const bool exact =
        options.tf32 || one_of.mathType == CUDNN_FMA_MATH || one_of.mathType == CUDNN_DEFAULT_MATH;
    if (one_of.status == CUDNN_STATUS_SUCCESS && exact &&
        one_of.determinism == CUDNN_DETERMINISTIC && one_of.memory <= options.most_workspace) {
      return one_of;
    }
  }
  throw RunError(
      fmt::format("cuDNN has no deterministic algorithm for its {} within a workspace "
                  "of {} bytes",
                  what, options.most_workspace));
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
    describe_channels(bias_, layer.out_channels);
    check(cudnnSetFilter4dDescriptor(filter_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                     layer.out_channels, input.shape.channels, layer.kernel,
                                     layer.kernel),
          "cudnnSetFilter4dDescriptor");
    check(cudnnSetConvolution2dDescriptor(convolution_.get(), layer.padding, layer.padding,
                                          layer.stride, layer.stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    choose_algorithms();
  }

  Flow forward(const Flat& flat, Flow input, Kept* kept, Device& device) const override {
    const Tensor result = device.take(output().bytes());
    const Tensor space = device.take(algorithms_.forward.memory);
    check(cudnnConvolutionForward(
              device.dnn(), &one, x_.get(), device.read(input.tensor), filter_.get(), flat.weights,
              convolution_.get(), algorithms_.forward.algo, device.write<void>(space),
              algorithms_.forward.memory, &zero, y_.get(), device.write(result)),
          "cudnnConvolutionForward");
    if (layer_.bias) {
      check(cudnnAddTensor(device.dnn(), &one, bias_.get(), flat.weights + weights_, &one, y_.get(),
                           device.write(result)),
            "cudnnAddTensor");
    }
    if (kept != nullptr) kept->tensors = {std::move(input.tensor)};
    return {result, true};
  }

  /// W needs the input and the output's gradient.
  Flow backward_input(const Flat& flat, Kept& kept, Flow gradient, bool wants_input,
                      Device& device) const override {
    kept.tensors.push_back(gradient.tensor);
    if (!wants_input) return {};
    const Tensor result = device.take(input_.bytes());
    const Tensor space = device.take(algorithms_.data.memory);
    check(cudnnConvolutionBackwardData(device.dnn(), &one, filter_.get(), flat.weights, y_.get(),
                                       device.read(gradient.tensor), convolution_.get(),
                                       algorithms_.data.algo, device.write<void>(space),
                                       algorithms_.data.memory, &zero, x_.get(),
                                       device.write(result)),
          "cudnnConvolutionBackwardData");
    return {result, true};
  }

  void backward_weight(const Flat& flat, const Kept& kept, Device& device) const override {
    const Tensor space = device.take(algorithms_.filter.memory);
    check(cudnnConvolutionBackwardFilter(device.dnn(), &one, x_.get(), device.read(kept.tensors[0]),
                                         y_.get(), device.read(kept.tensors[1]), convolution_.get(),
                                         algorithms_.filter.algo, device.write<void>(space),
                                         algorithms_.filter.memory, &one, filter_.get(),
                                         flat.gradient),
          "cudnnConvolutionBackwardFilter");
    if (!layer_.bias) return;
    check(cudnnConvolutionBackwardBias(device.dnn(), &one, y_.get(), device.read(kept.tensors[1]),
                                       &one, bias_.get(), flat.gradient + weights_),
          "cudnnConvolutionBackwardBias");
  }

 private:
  static std::ptrdiff_t count(const models::Convolution& layer, const Place& input) {
    return std::ptrdiff_t{layer.out_channels} * input.shape.channels * layer.kernel * layer.kernel;
  }

  void choose_algorithms() {
    const DeviceOptions& options = input_.device->options();
    cudnnHandle_t dnn = input_.device->any_dnn();
    check(cudnnSetConvolutionMathType(convolution_.get(),
                                      options.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
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
    algorithms_ = {choice(forward, options, "forward"), choice(data, options, "input gradient"),
                   choice(filter, options, "weight gradient")};
  }

  models::Convolution layer_;
  Place input_;
  std::ptrdiff_t weights_;
  TensorDescriptor x_, y_, bias_;
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
