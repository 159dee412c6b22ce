#include "exec/dnn_op.h"

#include <utility>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

constexpr std::size_t piece_alignment = 64;

std::size_t piece_size(std::size_t bytes) {
  return (bytes + piece_alignment - 1) / piece_alignment * piece_alignment;
}

}  // namespace

std::unique_ptr<Op> make_op(const models::Layer& layer, const Place& input) {
  models::output_shape(layer, input.shape);  // refuses what does not fit, with the layer's name
  try {
    return make_layer(layer, input);
  } catch (const dnnl::error& error) {
    fail("layer '{}': oneDNN cannot run it on {} samples of {}x{}x{}: {}", layer.name,
         input.samples, input.shape.channels, input.shape.height, input.shape.width, error.what());
  }
}

dnnl::memory::desc plain_layout(int samples, const models::SampleShape& shape) {
  return {dims4(samples, shape.channels, shape.height, shape.width), dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::nchw};
}

dnnl::memory::desc layout_of(const Place& place, int channel_block) {
  using tag = dnnl::memory::format_tag;
  const tag format = channel_block == 1   ? tag::nchw
                     : channel_block == 8 ? tag::nChw8c
                                          : tag::nChw16c;
  const auto& [channels, height, width, is_sequence] = place.shape;
  return {dims4(place.samples, channels, height, width), dnnl::memory::data_type::f32, format};
}

int channel_block(const Place& place) {
  for (const int block : {1, 8, 16}) {
    if (place.layout == layout_of(place, block)) return block;
  }
  throw RunError("oneDNN: an activation has neither a plain nor a blocked layout");
}

int preferred_channel_block() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core || isa == dnnl::cpu_isa::avx512_core_vnni ||
                 isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx
             ? 16
             : 8;
}

// The library's own scratchpad belongs to the thread that made the primitive; another thread that
// runs it writes out of bounds (oneDNN 2.6.3).
dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Reorder::Reorder(const dnnl::engine& engine, const dnnl::memory::desc& from,
                 const dnnl::memory::desc& to, bool accumulate)
    : from_(from), to_(to), needed_(accumulate || from != to) {
  if (!needed_) return;
  dnnl::primitive_attr attributes = user_scratchpad();
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc description(engine, from, engine, to, attributes);
  scratch_ = description.scratchpad_desc();
  reorder_ = dnnl::reorder(description);
}

void Reorder::run(Call& call, const void* from, void* to, std::byte* scratch) const {
  reorder_.execute(call.stream, {{DNNL_ARG_FROM, memory_at(call, from_, from)},
                                 {DNNL_ARG_TO, memory_at(call, to_, to)},
                                 {DNNL_ARG_SCRATCHPAD, memory_at(call, scratch_, scratch)}});
}

Tensor Reorder::moved(Tensor tensor, Call& call) const {
  if (!needed_) return tensor;
  Tensor result = call.pool.take(to_.get_size());
  run(call, tensor.data<float>(), result.data<float>(), call.workspace.at_least(scratch_bytes()));
  return result;
}

Pieces::Pieces(Workspace& workspace, std::initializer_list<std::size_t> sizes) {
  std::size_t sum = 0;
  for (const std::size_t bytes : sizes) sum += piece_size(bytes);
  at_ = workspace.at_least(sum);
}

std::byte* Pieces::next(std::size_t bytes) {
  std::byte* piece = at_;
  at_ += piece_size(bytes);
  return piece;
}

}  // namespace unlatch::exec
