#include "schedules/item_runs.h"

#include <gtest/gtest.h>

#include <random>

#include "schedules/registry.h"
#include "tests/support/variants.h"

namespace unlatch {
namespace {

ProgramItem item(Op op, int micro_batch) {
  ProgramItem item;
  item.op = op;
  item.micro_batch = {micro_batch};
  return item;
}

void expect_same(const std::vector<ProgramItem>& items, const ItemRuns& runs) {
  EXPECT_EQ(runs.size(), std::ssize(items));
  EXPECT_EQ(runs.expanded(), items);
}

TEST(ItemRuns, KeepsALoopOnce) {
  ItemRuns runs;
  for (int i = 0; i < 100'000; ++i) {
    runs.append(item(Op::forward, i + 3));
    runs.append(item(Op::backward, i));
  }
  EXPECT_EQ(runs.size(), 200'000);
  EXPECT_LT(runs.memory_bytes(), 1000U);
}

TEST(ItemRuns, KeepsALoopInALoopOnce) {
  std::vector<ProgramItem> items;
  ItemRuns runs;
  for (int batch = 0; batch < 50; ++batch) {
    for (int i = 0; i < 20; ++i) items.push_back(item(Op::forward, 20 * batch + i));
    for (int i = 20; i-- > 0;) {
      items.push_back(item(Op::recompute, 20 * batch + i));
      items.push_back(item(Op::backward, 20 * batch + i));
    }
    items.push_back(item(Op::update, 20 * batch + 19));
  }
  for (const ProgramItem& each : items) runs.append(each);
  expect_same(items, runs);
  EXPECT_LT(runs.memory_bytes(), 2000U);
}

TEST(ItemRuns, CountsEachItemAsOftenAsItOccurs) {
  ItemRuns runs;
  for (int i = 0; i < 7; ++i) runs.append(item(Op::forward, i));
  for (int i = 0; i < 4; ++i) runs.append(item(Op::backward, i));
  std::int64_t forwards = 0, all = 0;
  runs.count([&](const ProgramItem& each, std::int64_t times) {
    all += times;
    if (each.op == Op::forward) forwards += times;
  });
  EXPECT_EQ(forwards, 7);
  EXPECT_EQ(all, 11);
}

TEST(ItemRuns, LetsTheNewestItemChange) {
  ItemRuns runs;
  EXPECT_EQ(runs.last(), nullptr);
  runs.append(item(Op::forward, 0));
  runs.append(item(Op::forward, 1));
  runs.last()->column = 9;
  EXPECT_EQ(runs.expanded().back().column, 9);
  EXPECT_EQ(runs.expanded().front().column, -1);
}

/// Sequences of few letters, full of near repetitions, of which each ends at another place.
TEST(ItemRuns, GivesBackWhatItWasGiven) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<ProgramItem> items;
    std::vector<ProgramItem> phrase;
    ItemRuns runs;
    while (items.size() < 300) {
      if (phrase.empty() || random() % 4 == 0) {
        phrase.clear();
        for (std::uint32_t n = 0; n < 1 + random() % 6; ++n) {
          ProgramItem each =
              item(random() % 2 == 0 ? Op::forward : Op::backward, static_cast<int>(random() % 3));
          if (random() % 5 == 0) each.version = static_cast<int>(random() % 3);
          if (random() % 7 == 0) each.kind = ProgramItem::Kind::barrier;
          phrase.push_back(each);
        }
      }
      const std::size_t part = random() % 3 == 0 ? random() % phrase.size() + 1 : phrase.size();
      const auto times = 1 + random() % 5;
      for (std::uint32_t n = 0; n < times; ++n) {
        for (std::size_t j = 0; j < part; ++j) {
          ProgramItem each = phrase[j];
          each.micro_batch = each.micro_batch + static_cast<int>(items.size());
          if (each.version != newest) each.version += static_cast<int>(items.size());
          items.push_back(each);
          runs.append(each);
        }
      }
    }
    expect_same(items, runs);
  }
}

}  // namespace
}  // namespace unlatch
