// Op: one layer as oneDNN calls; the private seam of the dnn_*.cpp files.
#pragma once

#include <dnnl.hpp>

#include <memory>
#include <vector>

#include "exec/dnn_threads.h"
#include "exec/layer_op.h"
#include "exec/stage_module.h"

namespace unlatch::exec {

/// training: batch statistics, backward possible. inference: running statistics, forward only.
enum class Mode { training, inference };

/// Where a layer sits: what its primitives are made from.
struct Place {
  dnnl::engine engine;
  Mode mode = Mode::training;
  int samples = 1;
  models::SampleShape shape;
  dnnl::memory::desc layout;  ///< always [samples, channels, height, width]

  std::size_t bytes() const { return layout.get_size(); }
};

/// One call of forward or backward: what belongs to the calling thread alone.
struct Call {
  Call(const dnnl::engine& on, BufferPool& buffers, Workspace& scratch)
      : engine(on), stream(on), pool(buffers), workspace(scratch) {}

  OneMathsThread one_thread;
  const dnnl::engine& engine;
  dnnl::stream stream;
  BufferPool& pool;
  Workspace& workspace;
};

using Op = LayerOp<Place, Call>;

/// Throws Error naming the layer when it does not fit there.
std::unique_ptr<Op> make_op(const models::Layer& layer, const Place& input);

std::unique_ptr<Op> make_convolution(const models::Convolution& layer, const Place& input);
std::unique_ptr<Op> make_batch_norm(const models::BatchNorm& layer, const Place& input);
std::unique_ptr<Op> make_relu(const Place& input);
std::unique_ptr<Op> make_max_pool(const models::MaxPool& layer, const Place& input);
std::unique_ptr<Op> make_global_average_pool(const Place& input);
std::unique_ptr<Op> make_linear(const models::Linear& layer, const Place& input);
std::unique_ptr<Op> make_residual(const models::Residual& layer, const Place& input);
std::unique_ptr<Op> make_dropout(const models::Dropout& layer, const Place& input);
std::unique_ptr<Op> make_embedding(const models::Embedding& layer, const Place& input);
std::unique_ptr<Op> make_layer_norm(const models::LayerNorm& layer, const Place& input);
std::unique_ptr<Op> make_gelu(const Place& input);
std::unique_ptr<Op> make_attention(const models::CausalSelfAttention& layer, const Place& input);

/// [samples, channels, height, width], densely row-major.
dnnl::memory::desc plain_layout(int samples, const models::SampleShape& shape);
/// The layouts in use: plain, or blocks of 8 or 16 channels side by side (the last block filled up
/// with zero channels, which every layer keeps zero).
dnnl::memory::desc layout_of(const Place& place, int channel_block);
/// 1, 8 or 16. Throws RunError for any other layout.
int channel_block(const Place& place);
/// What this processor's convolutions want: 16 with AVX-512, else 8.
int preferred_channel_block();
dnnl::primitive_attr user_scratchpad();
inline dnnl::memory::dims dims4(int a, int b, int c, int d) { return {a, b, c, d}; }

/// A copy from one layout to another, or `to += from`.
class Reorder {
 public:
  Reorder(const dnnl::engine& engine, const dnnl::memory::desc& from, const dnnl::memory::desc& to,
          bool accumulate = false);
  bool needed() const { return needed_; }
  /// `scratch` holds scratch_bytes() bytes.
  void run(Call& call, const void* from, void* to, std::byte* scratch) const;
  /// The tensor in the new layout; the same tensor if that is its layout already.
  Tensor moved(Tensor tensor, Call& call) const;
  std::size_t scratch_bytes() const { return scratch_.get_size(); }

 private:
  dnnl::memory::desc from_;
  dnnl::memory::desc to_;
  dnnl::memory::desc scratch_;
  bool needed_;
  dnnl::reorder reorder_;
};

/// Hands out pieces of a workspace for one primitive, 64-byte aligned. The sizes must be known
/// first, since growing the workspace moves it.
class Pieces {
 public:
  Pieces(Workspace& workspace, std::initializer_list<std::size_t> sizes);
  explicit Pieces(std::byte* memory) : at_(memory) {}
  std::byte* next(std::size_t bytes);

 private:
  std::byte* at_;
};

inline dnnl::memory memory_at(const Call& call, const dnnl::memory::desc& desc, const void* data) {
  return {desc, call.engine, const_cast<void*>(data)};
}

}  // namespace unlatch::exec
