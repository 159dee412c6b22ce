#include "exec/handover.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace unlatch::exec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t floats_a_block = std::size_t{1} << 18;  ///< 1 MiB: a large activation
constexpr int blocks = 48;                                    ///< together more than most caches
constexpr int least_in_use = blocks / 2;  ///< blocks written since, when one is read

using Block = std::vector<float>;

void write(Block& block, float value) { std::ranges::fill(block, value); }

/// Time of one pass over a block; the sums keep the compiler from leaving it out.
double read_ns(const Block& block, float& sink) {
  constexpr std::size_t width = 16;
  float sums[width] = {};
  const auto start = Clock::now();
  for (std::size_t i = 0; i < block.size(); i += width) {
    for (std::size_t j = 0; j < width; ++j) sums[j] += block[i + j];
  }
  const std::chrono::duration<double, std::nano> time = Clock::now() - start;
  for (const float sum : sums) sink += sum;
  return time.count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

double handover_ns_per_byte() {
  std::vector<Block> ring(blocks, Block(floats_a_block));
  std::jthread([&ring] {
    for (Block& block : ring) write(block, 1);
  }).join();
  float sink = 0;
  std::vector<double> handed, own;
  for (int b = 0; b < least_in_use; ++b) handed.push_back(read_ns(ring[b], sink));
  Block block(floats_a_block);
  for (int b = 0; b < least_in_use; ++b) {
    write(block, sink);
    own.push_back(read_ns(block, sink));
  }
  const double more = median(std::move(handed)) - median(std::move(own));
  return std::max(0.0, more) / static_cast<double>(floats_a_block * sizeof(float));
}

}  // namespace unlatch::exec
