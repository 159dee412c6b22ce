// The cluster files that come with the program (data/clusters), made into source at configure time.
#pragma once

#include <span>
#include <string_view>

namespace unlatch::sim {

struct ShippedCluster {
  std::string_view name;
  std::string_view json;
};

std::span<const ShippedCluster> shipped_clusters();

}  // namespace unlatch::sim
