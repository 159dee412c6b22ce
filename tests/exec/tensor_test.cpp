#include "exec/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "exec/stage_module.h"

namespace unlatch::exec {
namespace {

TEST(BufferPool, GivesMemoryBackToTheNextOfTheSameSize) {
  BufferPool pool;
  Tensor tensor = pool.take(1000);
  const auto* first = tensor.data<std::byte>();
  Tensor shared = tensor;
  tensor = {};
  EXPECT_NE(pool.take(1000).data<std::byte>(), first) << "the copy still holds it";
  shared = {};
  Tensor other = pool.take(5000);
  EXPECT_NE(other.data<std::byte>(), first);
  EXPECT_EQ(pool.take(1000).data<std::byte>(), first);
}

TEST(BufferPool, AlignsToCacheLines) {
  BufferPool pool;
  for (const std::size_t bytes : {1UL, 63UL, 64UL, 100UL, 1UL << 20}) {
    const Tensor tensor = pool.take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data<std::byte>()) % 64, 0U);
    EXPECT_EQ(tensor.bytes(), bytes);
  }
}

TEST(BufferPool, ZeroesWhatWasUsedBefore) {
  BufferPool pool;
  pool.take(16).as<float>()[3] = 1;
  EXPECT_THAT(pool.take_zeroed(16).as<float>(), ::testing::Each(0.0F));
}

TEST(BufferPool, CopiesTheValuesAndNotTheMemory) {
  BufferPool pool;
  const Tensor source = pool.take_zeroed(8);
  const Tensor copy = pool.copy_of(source);
  source.as<float>()[0] = 1;
  EXPECT_EQ(copy.as<float>()[0], 0);
}

TEST(BufferPool, HandsOutNothingForNoBytes) {
  BufferPool pool;
  EXPECT_TRUE(pool.take(0).empty());
  EXPECT_TRUE(pool.copy_of({}).empty());
  EXPECT_TRUE(pool.take_zeroed(0).empty());
}

TEST(BufferPool, MayGoBeforeItsTensors) {
  Tensor tensor;
  {
    BufferPool pool;
    tensor = pool.take_zeroed(64);
  }
  tensor.as<float>()[0] = 1;
  EXPECT_EQ(tensor.as<float>()[0], 1);
}

TEST(BufferPool, ServesSeveralThreads) {
  BufferPool pool;
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&pool, &wrong, t] {
        for (int i = 0; i < 1000; ++i) {
          const Tensor tensor = pool.take(256);
          for (int& value : tensor.as<int>()) value = t;
          for (const int value : tensor.as<int>()) wrong[t] += value != t;
        }
      });
    }
  }
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(Workspace, GrowsAndKeepsWhatItHas) {
  Workspace workspace;
  const std::byte* small = workspace.at_least(100);
  EXPECT_EQ(workspace.at_least(50), small);
  const std::byte* large = workspace.at_least(100000);
  large = workspace.at_least(100000);
  EXPECT_EQ(workspace.at_least(10), large);
}

}  // namespace
}  // namespace unlatch::exec
