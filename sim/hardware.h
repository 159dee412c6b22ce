// Hardware: the devices of a cluster and the links between them, from a JSON file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/timeline.h"

namespace unlatch::sim {

/// What one device can do, as its data sheet says, and how much of that is reached.
struct DeviceType {
  std::string name;
  std::map<std::string, double> flops;  ///< by number format, "fp32", "bf16" ..: peak a second
  double memory_rate = 0;               ///< bytes a second
  std::int64_t memory = 0;              ///< bytes
  double achieved = 1;                  ///< share of the peaks that layers reach, 0..1
  nanoseconds launch{0};                ///< what a layer costs beside its work
};

struct Device {
  int type = 0;
  int node = 0;
};

/// One way from one place to another, with what it can carry. A cable that both ways share is one
/// link in both routes.
struct Link {
  std::string name;
  double rate = 0;  ///< bytes a second
  nanoseconds latency{0};
};

/// Links in order; their latencies added up.
struct Route {
  std::vector<int> links;
  nanoseconds latency{0};
  double rate = 0;  ///< of its slowest link; infinite where there is none
};

/// Devices are numbered node by node; rank r sits on device placement[r].
class Cluster {
 public:
  struct Parts {
    std::string name;
    std::vector<DeviceType> types;
    std::vector<Device> devices;
    std::vector<Link> links;
    struct Way {
      int link = 0;
      int to = 0;
    };
    std::vector<std::vector<Way>> ways;  ///< out of each vertex: devices first, then switches
    std::vector<int> placement;

    /// Whether both ways of its cable share what it can carry.
    bool is_shared(const Way& way) const;
    /// Of each vertex, whether links lead there from device 0.
    std::vector<bool> reached() const;
  };
  /// Throws Error when a device cannot be reached from another.
  explicit Cluster(Parts parts);

  const std::string& name() const& { return parts_.name; }
  int devices() const { return static_cast<int>(parts_.devices.size()); }
  int nodes() const { return parts_.devices.back().node + 1; }
  const std::vector<DeviceType>& types() const& { return parts_.types; }
  int type_index(int device) const { return parts_.devices[device].type; }
  const DeviceType& type_of(int device) const { return parts_.types[type_index(device)]; }
  int node_of(int device) const { return parts_.devices[device].node; }
  std::vector<int> devices_of(int node) const;
  const std::vector<Link>& links() const& { return parts_.links; }
  const std::vector<int>& placement() const& { return parts_.placement; }
  /// Whether these are of one type and have links alike to the same places, so that whatever runs
  /// on one could run on the other.
  bool interchangeable(int a, int b) const;
  /// Whether the links of the cluster stay the same when the devices of these nodes change places,
  /// the first with the first, and so on.
  bool nodes_alike(int a, int b) const;
  /// The same with its ranks on these devices. Throws Error for one that there is not, or twice.
  Cluster with_placement(std::vector<int> devices) const;
  /// Fewest links, then least latency, then the fastest slowest link, then the first in the file.
  /// Empty within a device.
  Route route(int from, int to) const;

 private:
  Parts parts_;
};

/// `text` is the whole file, `place` its name for messages. Throws Error with the place of what is
/// wrong, such as "4xA100.json, node.links[1].bandwidth".
Cluster parse_cluster(const std::string& text, const std::string& place);
/// A file, or one of those that come with the program (see cluster_names).
Cluster read_cluster(const std::string& file_or_name);
std::vector<std::string_view> cluster_names();

}  // namespace unlatch::sim
