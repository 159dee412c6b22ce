// FairShare: hand-worked shares, and on random networks that no flow could have more without
// another, no faster one, having less.
#include "sim/fair_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace unlatch::sim {
namespace {

using testing::UnorderedElementsAre;
using Route = std::vector<FairShare::Link>;

TEST(FairShare, DividesALinkEqually) {
  FairShare shares({12});
  const auto a = shares.add(Route{0});
  EXPECT_EQ(shares.rate(a), 12);
  const auto b = shares.add(Route{0});
  const auto c = shares.add(Route{0});
  EXPECT_EQ(shares.rate(a), 4);
  EXPECT_EQ(shares.rate(c), 4);
  EXPECT_THAT(shares.changed(), UnorderedElementsAre(a, b, c));
  shares.remove(b);
  EXPECT_EQ(shares.rate(a), 6);
  EXPECT_THAT(shares.changed(), UnorderedElementsAre(a, c));
}

// The classic chain: the long flow is held up where it is tightest, and the short one takes the
// rest of the other link.
TEST(FairShare, GivesWhatALongFlowLeavesToTheShortOnes) {
  FairShare shares({1, 2});
  const auto short_one = shares.add(Route{0});
  const auto long_one = shares.add(Route{0, 1});
  const auto other = shares.add(Route{1});
  EXPECT_EQ(shares.rate(short_one), 0.5);
  EXPECT_EQ(shares.rate(long_one), 0.5);
  EXPECT_EQ(shares.rate(other), 1.5);
}

TEST(FairShare, LeavesAloneWhatSharesNothing) {
  FairShare shares({8, 8});
  shares.add(Route{0});
  const auto far = shares.add(Route{1});
  const auto second = shares.add(Route{0});
  EXPECT_THAT(shares.changed(), UnorderedElementsAre(0, second));
  EXPECT_EQ(shares.rate(far), 8);
}

TEST(FairShare, LimitsNoFlowWithoutLinks) {
  FairShare shares({1});
  EXPECT_TRUE(std::isinf(shares.rate(shares.add(Route{}))));
}

/// The rate of every flow by textbook filling over all links at once.
std::map<int, double> filled(const std::vector<double>& capacities,
                             const std::map<int, Route>& flows) {
  std::map<int, double> rates;
  std::vector<double> left = capacities;
  while (rates.size() < flows.size()) {
    double least = INFINITY;
    std::size_t tightest = 0;
    for (std::size_t l = 0; l < left.size(); ++l) {
      const auto open = std::ranges::count_if(flows, [&](const auto& flow) {
        return !rates.contains(flow.first) &&
               std::ranges::find(flow.second, static_cast<int>(l)) != flow.second.end();
      });
      if (open > 0 && left[l] / static_cast<double>(open) < least) {
        least = left[l] / static_cast<double>(open);
        tightest = l;
      }
    }
    for (const auto& [flow, route] : flows) {
      const auto uses = [&](int link) { return std::ranges::find(route, link) != route.end(); };
      if (rates.contains(flow) || !uses(static_cast<int>(tightest))) continue;
      rates[flow] = least;
      for (const int link : route) left[static_cast<std::size_t>(link)] -= least;
    }
  }
  return rates;
}

TEST(FairShare, IsMaxMinFairOnRandomNetworks) {
  std::mt19937 random(1);
  for (int network = 0; network < 50; ++network) {
    std::vector<double> capacities(1 + random() % 8);
    for (double& capacity : capacities) capacity = 1 + static_cast<double>(random() % 20);
    FairShare shares(capacities);
    std::map<int, Route> flows;
    for (int change = 0; change < 100; ++change) {
      if (!flows.empty() && random() % 3 == 0) {
        const auto which = std::next(flows.begin(), static_cast<long>(random() % flows.size()));
        shares.remove(which->first);
        flows.erase(which);
      } else {
        Route route;
        for (std::size_t l = 0; l < capacities.size(); ++l) {
          if (random() % 3 == 0) route.push_back(static_cast<int>(l));
        }
        if (route.empty()) route.push_back(0);
        flows[shares.add(route)] = route;
      }
      for (const auto& [flow, rate] : filled(capacities, flows)) {
        ASSERT_NEAR(shares.rate(flow), rate, 1e-9 * rate);
      }
    }
  }
}

}  // namespace
}  // namespace unlatch::sim
