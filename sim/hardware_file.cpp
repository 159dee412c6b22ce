// Hardware files: JSON with strict units, every fault with its place.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/json_value.h"
#include "schedules/error.h"
#include "schedules/suggest.h"
#include "sim/hardware.h"
#include "sim/shipped_clusters.h"
#include "sim/units.h"
#include "traces/input_file.h"

namespace unlatch::sim {
namespace {

using Value = models::JsonValue;

constexpr int most_devices = 1 << 16;
constexpr std::size_t most_links = 1 << 20;

/// A number without quotes has no unit either: who parses it lists them.
std::string with_unit(const Value& value) {
  return value.is_number() ? fmt::format("{}", value.number(-1e300, 1e300)) : value.text();
}

/// With a unit: a bare number would be milliseconds, which no link has.
nanoseconds duration_of(const Value& value) {
  const std::string text = with_unit(value);
  require(!value.is_number() && (text == "0" || text.ends_with('s')),
          "{}: '{}' has no unit, such as 5us; the units are ns, us, ms, s", value.place(), text);
  return parse_duration(value.place(), text);
}

/// Generous beside all that is built: 100000 times the memory of a GPU of 2025.
double rate_of(const Value& value) {
  constexpr double least = 1, most = 1e18;
  const double rate = parse_rate(value.place(), with_unit(value));
  require(rate >= least, "{}: '{}' is less than a byte a second", value.place(), value.text());
  require(rate <= most, "{}: '{}' is more than an exabyte a second (1e9 GB/s)", value.place(),
          value.text());
  return rate;
}

DeviceType read_type(const std::string& name, const Value& value) {
  value.require_object({"tflops", "memory", "memory_bandwidth", "achieved", "launch"});
  DeviceType type{.name = name, .flops = {}};
  constexpr double most_tflops = 1e6, flops_a_tflop = 1e12;
  const Value peaks = value.at("tflops");
  for (const auto& [format, tflops] : peaks.members()) {
    const std::vector<std::string_view> formats{"fp64", "fp32", "tf32", "bf16", "fp16", "fp8"};
    require(std::ranges::find(formats, format) != formats.end(),
            "{}: unknown number format '{}'; the formats are {}.{}", peaks.place(), format,
            fmt::join(formats, ", "), suggest(format, formats));
    type.flops[format] = tflops.number(1e-6, most_tflops) * flops_a_tflop;
  }
  const Value memory = value.at("memory");
  require(
      !memory.is_number(),
      "{}: '{}' needs a unit; the units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, as in \"16GB\"",
      memory.place(), with_unit(memory));
  type.memory = parse_size(memory.place(), memory.text());
  constexpr std::int64_t least_memory = 1 << 20;
  require(type.memory >= least_memory, "{}: '{}' is less than a MiB; give a unit, such as 16GB",
          memory.place(), memory.text());
  type.memory_rate = rate_of(value.at("memory_bandwidth"));
  if (value.has("achieved")) type.achieved = value.at("achieved").number(0.001, 1);
  if (value.has("launch")) type.launch = duration_of(value.at("launch"));
  return type;
}

/// Reads one file and puts the cluster together.
class ClusterReader {
 public:
  ClusterReader(const nlohmann::json& json, const std::string& place) : file_(json, place) {}

  Cluster read() {
    file_.require_object(
        {"name", "source", "device_types", "node", "nodes", "network", "placement"});
    parts_.name = file_.at("name").text();
    if (file_.has("source")) file_.at("source").text();
    const Value types = file_.at("device_types");
    for (const auto& [name, value] : types.members()) {
      require(!name.empty(), "{}: a device type has an empty name", types.place());
      parts_.types.push_back(read_type(name, value));
    }
    read_nodes();
    if (file_.has("network")) read_network();
    require_reached();
    place_ranks();
    return Cluster(std::move(parts_));
  }

 private:
  struct Cable {
    double rate = 0;
    nanoseconds latency{0};
    bool both_ways_share = false;
  };
  struct Switch {
    std::string name, place;
  };
  using Vertices = std::vector<int>;
  using Switches = std::map<std::string, Vertices, std::less<>>;
  /// Nodes alike, one after the other.
  struct NodeKind {
    int nodes = 1;
    int first_device = 0;
    int per_node = 0;        ///< devices
    Switches switches = {};  ///< of each node
  };

  /// All devices come before all switches.
  void read_nodes() {
    const Value node = file_.at("node");
    const bool several = node.is_list();
    if (several && file_.has("nodes")) {
      fail("{}: 'node' is a list here, and each of its entries has a 'count' of its own",
           file_.at("nodes").place());
    }
    const std::vector<Value> kinds = several ? node.list() : std::vector<Value>{node};
    for (const Value& kind : kinds) {
      std::vector<std::string_view> keys{"devices", "switches", "links"};
      if (several) keys.emplace_back("count");
      kind.require_object(keys);
      const Value& counted = several ? kind : file_;
      const char* key = several ? "count" : "nodes";
      add_nodes(kind.at("devices"), counted.has(key) ? counted.at(key).whole(1, most_devices) : 1);
    }
    parts_.ways.resize(parts_.devices.size());
    for (std::size_t i = 0; i < kinds.size(); ++i) join_node(kinds[i], kinds_[i]);
  }

  void join_node(const Value& node, NodeKind& kind) {
    if (node.has("switches")) {
      for (const Value& name : node.at("switches").list()) {
        add_switch(name, kind.switches, kind.nodes);
      }
    }
    if (!node.has("links")) return;
    for (const Value& link : node.at("links").list()) {
      for (int n = 0; n < kind.nodes; ++n) {
        connect(link, [&](const Value& end) { return in_node(end, kind, n); });
      }
    }
  }

  /// `devices`: one group of a type, or a list of them in their order in the node.
  void add_nodes(const Value& devices, int nodes) {
    NodeKind kind{.nodes = nodes, .first_device = static_cast<int>(parts_.devices.size())};
    std::vector<int> types;
    const auto groups = devices.is_list() ? devices.list() : std::vector<Value>{devices};
    for (const Value& group : groups) {
      const auto [type, count] = read_group(group);
      require((std::int64_t{kind.per_node} + count) * nodes + kind.first_device <= most_devices,
              "{}: {} devices in each of {} nodes; at most {} devices in all", group.place(),
              kind.per_node + count, nodes, most_devices);
      types.insert(types.end(), static_cast<std::size_t>(count), type);
      kind.per_node += count;
    }
    const int first_node = parts_.devices.empty() ? 0 : parts_.devices.back().node + 1;
    for (int n = 0; n < nodes; ++n) {
      for (const int type : types) parts_.devices.push_back({type, first_node + n});
    }
    kinds_.push_back(std::move(kind));
  }

  /// Type and number.
  std::pair<int, int> read_group(const Value& group) const {
    group.require_object({"type", "count"});
    const Value type = group.at("type");
    const auto found = std::ranges::find(parts_.types, type.text(), &DeviceType::name);
    require(found != parts_.types.end(), "{}: there is no device type '{}'", type.place(),
            type.text());
    return {static_cast<int>(found - parts_.types.begin()),
            group.at("count").whole(1, most_devices)};
  }

  void read_network() {
    const Value network = file_.at("network");
    network.require_object({"switches", "links"});
    for (const Value& name : network.at("switches").list()) add_switch(name, switches_, 1);
    for (const Value& link : network.at("links").list()) {
      connect(link, [&](const Value& end) { return in_network(end); });
    }
  }

  void add_switch(const Value& name, Switches& switches, int count) {
    require(!is_device_name(name.text()), "{}: '{}' means devices; name the switch otherwise",
            name.place(), name.text());
    const auto [entry, added] = switches.try_emplace(name.text());
    require(added, "{}: there are two switches '{}'", name.place(), name.text());
    for (int n = 0; n < count; ++n) {
      entry->second.push_back(static_cast<int>(parts_.ways.size()));
      parts_.ways.emplace_back();
      switch_places_.push_back({name.text(), name.place()});
    }
  }

  static bool is_device_name(std::string_view text) {
    return text.starts_with("device") &&
           text.find_first_not_of("0123456789-", 6) == std::string_view::npos;
  }

  /// "device", "device3", "device0-3", or a switch of the node.
  static Vertices in_node(const Value& end, const NodeKind& kind, int node) {
    const std::string text = end.text();
    if (!is_device_name(text)) {
      const auto found = kind.switches.find(text);
      require(found != kind.switches.end(),
              "{}: '{}' is no switch of the node, and not 'device', 'deviceN' or 'deviceN-M'",
              end.place(), text);
      return {found->second[node]};
    }
    const auto [first, last] = device_range(end, text.substr(6), kind.per_node);
    Vertices vertices;
    for (int d = first; d <= last; ++d) {
      vertices.push_back(kind.first_device + node * kind.per_node + d);
    }
    return vertices;
  }

  static std::pair<int, int> device_range(const Value& end, const std::string& numbers,
                                          int per_node) {
    if (numbers.empty()) return {0, per_node - 1};
    const auto number = [&](const std::string& text) { return device_number(end, text, per_node); };
    const auto dash = numbers.find('-');
    const int first = number(numbers.substr(0, dash));
    const int last = dash == std::string::npos ? first : number(numbers.substr(dash + 1));
    require(first <= last, "{}: '{}' ends before it begins", end.place(), end.text());
    return {first, last};
  }
  static int device_number(const Value& end, const std::string& text, int per_node) {
    int number = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    require(error == std::errc() && rest == text.data() + text.size() && number < per_node,
            "{}: '{}': a node has devices 0 to {}", end.place(), end.text(), per_node - 1);
    return number;
  }

  /// "node.SWITCH", that of every node that has one, or a switch of the network.
  Vertices in_network(const Value& end) const {
    const std::string text = end.text();
    constexpr std::string_view prefix = "node.";
    Vertices vertices;
    const auto take = [&](const Switches& switches, std::string_view name) {
      const auto found = switches.find(name);
      if (found == switches.end()) return;
      vertices.insert(vertices.end(), found->second.begin(), found->second.end());
    };
    if (text.starts_with(prefix)) {
      for (const NodeKind& kind : kinds_) take(kind.switches, text.substr(prefix.size()));
    } else {
      take(switches_, text);
    }
    require(!vertices.empty(),
            "{}: '{}' must be a switch of the network, or node.SWITCH, a switch of the nodes",
            end.place(), text);
    return vertices;
  }

  template <class Find>
  void connect(const Value& link, const Find& find) {
    link.require_object({"from", "to", "bandwidth", "latency", "duplex"});
    const Value latency = link.at("latency");
    Cable cable{.rate = rate_of(link.at("bandwidth")), .latency = duration_of(latency)};
    constexpr std::chrono::seconds most_latency{1000};  // all links of a route still fit 64 bits
    require(cable.latency <= most_latency, "{}: '{}' is more than {} s", latency.place(),
            latency.text(), most_latency.count());
    if (link.has("duplex")) {
      cable.both_ways_share = link.at("duplex").word({"full", "half"}) == "half";
    }
    const Value from = link.at("from"), to = link.at("to");
    const Vertices starts = find(from), ends = find(to);
    require(starts.size() > 1 || starts != ends, "{}: it joins {} with itself; a link has two ends",
            link.place(), end_name(starts.front()));
    for (const int a : starts) {
      for (const int b : ends) {
        if (a == b || !joins_first(link, a, b)) continue;
        add_cable(cable, fmt::format("{} to {}", from.text(), to.text()), a, b);
      }
      require(parts_.links.size() <= most_links, "{}: more than {} links; use a switch",
              link.place(), most_links);
    }
  }

  /// False for two ends that this link joins already, as "device" to "device" names each pair
  /// twice. Throws Error when another link does.
  bool joins_first(const Value& link, int a, int b) {
    const auto [first, is_new] = joined_.try_emplace(std::minmax(a, b), link.place());
    require(is_new || first->second == link.place(),
            "{}: it joins {} and {}, as {} does; give one link with the bandwidth of both",
            link.place(), end_name(a), end_name(b), first->second);
    return is_new;
  }

  std::string end_name(int vertex) const {
    const auto devices = static_cast<int>(parts_.devices.size());
    if (vertex < devices) return fmt::format("device {}", vertex);
    return fmt::format("switch '{}'", switch_places_[vertex - devices].name);
  }

  /// Ranks sit on devices, so that each must be reached, and a switch without one serves nothing.
  void require_reached() const {
    const std::vector<bool> reached = parts_.reached();
    const int devices = static_cast<int>(parts_.devices.size());
    for (int d = 0; d < devices; ++d) {
      const int node = parts_.devices[d].node;
      require(reached[d],
              "{}, {}: device {} (of node {}) cannot be reached from device 0; give it a link",
              file_.place(), node == 0 ? "node.links" : "network.links", d, node);
    }
    for (std::size_t s = 0; s < switch_places_.size(); ++s) {
      require(reached[devices + s],
              "{}: no link reaches the switch '{}' from the devices; join it or leave "
              "it out",
              switch_places_[s].place, switch_places_[s].name);
    }
  }

  void add_cable(const Cable& cable, const std::string& name, int a, int b) {
    const int there = static_cast<int>(parts_.links.size());
    parts_.links.push_back({name, cable.rate, cable.latency});
    int back = there;
    if (!cable.both_ways_share) {
      back = there + 1;
      parts_.links.push_back({name, cable.rate, cable.latency});
    }
    parts_.ways[a].push_back({there, b});
    parts_.ways[b].push_back({back, a});
  }

  /// Rank r on device r, or as the file lists them.
  void place_ranks() {
    if (!file_.has("placement")) {
      for (int d = 0; d < static_cast<int>(parts_.devices.size()); ++d) {
        parts_.placement.push_back(d);
      }
      return;
    }
    std::vector<bool> taken(parts_.devices.size(), false);
    for (const Value& device : file_.at("placement").list()) {
      const int d = device.whole(0, static_cast<int>(parts_.devices.size()) - 1);
      require(!taken[d], "{}: device {} has a rank already", device.place(), d);
      taken[d] = true;
      parts_.placement.push_back(d);
    }
  }

  Value file_;
  Cluster::Parts parts_;
  std::vector<NodeKind> kinds_;
  Switches switches_;                  ///< of the network
  std::vector<Switch> switch_places_;  ///< by vertex behind the devices
  std::map<std::pair<int, int>, std::string>
      joined_;  ///< by lower and higher end: the link's place
};

}  // namespace

Cluster parse_cluster(const std::string& text, const std::string& place) {
  const nlohmann::json json = models::parse_json(text, place);
  return ClusterReader(json, place).read();
}

Cluster read_cluster(const std::string& file_or_name) {
  for (const ShippedCluster& shipped : shipped_clusters()) {
    if (shipped.name == file_or_name) {
      return parse_cluster(std::string(shipped.json), file_or_name);
    }
  }
  const bool looks_like_a_file =
      file_or_name.find('/') != std::string::npos || file_or_name.ends_with(".json");
  require(
      file_or_name != "this" && file_or_name != "this-machine",
      "--cluster '{}': measure it first, 'unlatch profile --machine --save this.json', and name "
      "that file",
      file_or_name);
  const auto names = cluster_names();
  require(looks_like_a_file, "--cluster '{}': neither a file (.json) nor one of {}.{}",
          file_or_name, fmt::join(names, ", "), suggest(file_or_name, names));
  return parse_cluster(read_text(file_or_name), file_or_name);
}

std::vector<std::string_view> cluster_names() {
  std::vector<std::string_view> names;
  for (const ShippedCluster& shipped : shipped_clusters()) names.push_back(shipped.name);
  return names;
}

}  // namespace unlatch::sim
