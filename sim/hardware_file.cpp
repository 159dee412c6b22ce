// Hardware files: JSON with strict units, every fault with its place.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "sim/hardware.h"
#include "sim/shipped_clusters.h"
#include "sim/units.h"
#include "traces/input_file.h"

namespace unlatch::sim {
namespace {

using Json = nlohmann::json;

/// A value and where it stands: "file, node.links[1]".
class Value {
 public:
  Value(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  const std::string& place() const& { return place_; }
  bool has(const char* key) const { return json_.contains(key); }

  /// Throws Error unless it is an object with no keys but these.
  void require_object(const std::vector<std::string_view>& keys) const {
    require(json_.is_object(), "{}: {} is no object", place_, json_.dump());
    for (const auto& [key, value] : json_.items()) {
      require(std::ranges::find(keys, key) != keys.end(),
              "{}: unknown key '{}'; the keys are {}.{}", place_, key, fmt::join(keys, ", "),
              suggest(key, keys));
    }
  }
  Value at(const char* key) const {
    require(json_.is_object() && json_.contains(key), "{}: there is no '{}'", place_, key);
    return {json_.at(key), inner(key)};
  }
  std::vector<Value> list() const {
    require(json_.is_array() && !json_.empty(), "{}: must be a list that is not empty", place_);
    std::vector<Value> values;
    for (std::size_t i = 0; i < json_.size(); ++i) {
      values.push_back({json_[i], fmt::format("{}[{}]", place_, i)});
    }
    return values;
  }
  std::vector<std::pair<std::string, Value>> members() const {
    require(json_.is_object() && !json_.empty(), "{}: must be an object that is not empty", place_);
    std::vector<std::pair<std::string, Value>> members;
    for (const auto& [key, value] : json_.items()) {
      members.emplace_back(key, Value(value, inner(key)));
    }
    return members;
  }
  std::string text() const {
    require(json_.is_string() && !json_.get_ref<const std::string&>().empty(),
            "{}: {} must be a text", place_, json_.dump());
    auto text = json_.get<std::string>();
    const bool one_line = std::ranges::none_of(text, [](unsigned char c) { return c < ' '; });
    require(one_line, "{}: {} holds control characters", place_, json_.dump());
    return text;
  }
  double number(double least, double most) const {
    const double value = json_.is_number() ? json_.get<double>() : NAN;
    require(value >= least && value <= most, "{}: {} must be a number in {}..{}", place_,
            json_.dump(), least, most);
    return value;
  }
  int whole(int least, int most) const {
    const bool fits = json_.is_number_integer() && json_ >= least && json_ <= most;
    require(fits, "{}: {} must be a whole number in {}..{}", place_, json_.dump(), least, most);
    return json_.get<int>();
  }

 private:
  std::string inner(std::string_view key) const {
    const bool whole_file = place_.find(", ") == std::string::npos;
    return fmt::format("{}{}{}", place_, whole_file ? ", " : ".", key);
  }
  const Json& json_;
  std::string place_;
};

constexpr int most_devices = 1 << 16;
constexpr std::size_t most_links = 1 << 20;

/// With a unit: a bare number would be milliseconds, which no link has.
nanoseconds duration_of(const Value& value) {
  const std::string text = value.text();
  require(text == "0" || text.ends_with('s'), "{}: '{}' has no unit, such as 5us", value.place(),
          text);
  return parse_duration(value.place(), text);
}

DeviceType read_type(const std::string& name, const Value& value) {
  value.require_object({"tflops", "memory", "memory_bandwidth", "achieved", "launch"});
  DeviceType type{.name = name, .flops = {}};
  constexpr double most_tflops = 1e9, flops_a_tflop = 1e12;
  const Value peaks = value.at("tflops");
  for (const auto& [format, tflops] : peaks.members()) {
    const std::vector<std::string_view> formats{"fp64", "fp32", "tf32", "bf16", "fp16", "fp8"};
    require(std::ranges::find(formats, format) != formats.end(),
            "{}: unknown number format '{}'; the formats are {}.{}", peaks.place(), format,
            fmt::join(formats, ", "), suggest(format, formats));
    type.flops[format] = tflops.number(1e-6, most_tflops) * flops_a_tflop;
  }
  const Value memory = value.at("memory"), rate = value.at("memory_bandwidth");
  type.memory = parse_size(memory.place(), memory.text());
  constexpr std::int64_t least_memory = 1 << 20;
  require(type.memory >= least_memory, "{}: '{}' is less than a MiB; give a unit, such as 16GB",
          memory.place(), memory.text());
  type.memory_rate = parse_rate(rate.place(), rate.text());
  if (value.has("achieved")) type.achieved = value.at("achieved").number(0.001, 1);
  if (value.has("launch")) type.launch = duration_of(value.at("launch"));
  return type;
}

/// Reads one file and puts the cluster together.
class ClusterReader {
 public:
  ClusterReader(const Json& json, const std::string& place) : file_(json, place) {}

  Cluster read() {
    file_.require_object(
        {"name", "source", "device_types", "node", "nodes", "network", "placement"});
    parts_.name = file_.at("name").text();
    for (const auto& [name, value] : file_.at("device_types").members()) {
      parts_.types.push_back(read_type(name, value));
    }
    nodes_ = file_.has("nodes") ? file_.at("nodes").whole(1, most_devices) : 1;
    read_node();
    if (file_.has("network")) read_network();
    place_ranks();
    return Cluster(std::move(parts_));
  }

 private:
  struct Cable {
    double rate = 0;
    nanoseconds latency{0};
    bool both_ways_share = false;
  };
  using Vertices = std::vector<int>;

  void read_node() {
    const Value node = file_.at("node");
    node.require_object({"devices", "switches", "links"});
    read_devices(node.at("devices"));
    if (node.has("switches")) {
      for (const Value& name : node.at("switches").list()) add_switch(name, node_switches_, nodes_);
    }
    if (!node.has("links")) return;
    for (const Value& link : node.at("links").list()) {
      for (int n = 0; n < nodes_; ++n) {
        connect(link, [&](const Value& end) { return in_node(end, n); });
      }
    }
  }

  void read_devices(const Value& devices) {
    devices.require_object({"type", "count"});
    const Value type = devices.at("type");
    const auto found = std::ranges::find(parts_.types, type.text(), &DeviceType::name);
    require(found != parts_.types.end(), "{}: there is no device type '{}'", type.place(),
            type.text());
    per_node_ = devices.at("count").whole(1, most_devices);
    require(std::int64_t{per_node_} * nodes_ <= most_devices,
            "{}: {} devices in each of {} nodes; at most {} devices in all", devices.place(),
            per_node_, nodes_, most_devices);
    const int which = static_cast<int>(found - parts_.types.begin());
    for (int d = 0; d < per_node_ * nodes_; ++d) parts_.devices.push_back({which, d / per_node_});
    parts_.ways.resize(parts_.devices.size());
  }

  void read_network() {
    const Value network = file_.at("network");
    network.require_object({"switches", "links"});
    for (const Value& name : network.at("switches").list()) add_switch(name, switches_, 1);
    for (const Value& link : network.at("links").list()) {
      connect(link, [&](const Value& end) { return in_network(end); });
    }
  }

  using Switches = std::map<std::string, Vertices, std::less<>>;
  void add_switch(const Value& name, Switches& switches, int count) {
    require(!is_device_name(name.text()), "{}: '{}' means devices; name the switch otherwise",
            name.place(), name.text());
    const auto [entry, added] = switches.try_emplace(name.text());
    require(added, "{}: there are two switches '{}'", name.place(), name.text());
    for (int n = 0; n < count; ++n) {
      entry->second.push_back(static_cast<int>(parts_.ways.size()));
      parts_.ways.emplace_back();
    }
  }

  static bool is_device_name(std::string_view text) {
    return text.starts_with("device") &&
           text.find_first_not_of("0123456789-", 6) == std::string_view::npos;
  }

  /// "device", "device3", "device0-3", or a switch of the node.
  Vertices in_node(const Value& end, int node) const {
    const std::string text = end.text();
    if (!is_device_name(text)) {
      const auto found = node_switches_.find(text);
      require(found != node_switches_.end(),
              "{}: '{}' is no switch of the node, and not 'device', 'deviceN' or 'deviceN-M'",
              end.place(), text);
      return {found->second[node]};
    }
    const auto [first, last] = device_range(end, text.substr(6));
    Vertices vertices;
    for (int d = first; d <= last; ++d) vertices.push_back(node * per_node_ + d);
    return vertices;
  }

  std::pair<int, int> device_range(const Value& end, const std::string& numbers) const {
    if (numbers.empty()) return {0, per_node_ - 1};
    const auto dash = numbers.find('-');
    const int first = device_number(end, numbers.substr(0, dash));
    const int last =
        dash == std::string::npos ? first : device_number(end, numbers.substr(dash + 1));
    require(first <= last, "{}: '{}' ends before it begins", end.place(), end.text());
    return {first, last};
  }
  int device_number(const Value& end, const std::string& text) const {
    int number = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    require(error == std::errc() && rest == text.data() + text.size() && number < per_node_,
            "{}: '{}': a node has devices 0 to {}", end.place(), end.text(), per_node_ - 1);
    return number;
  }

  /// "node.SWITCH", that of every node, or a switch of the network.
  Vertices in_network(const Value& end) const {
    const std::string text = end.text();
    constexpr std::string_view prefix = "node.";
    const bool of_nodes = text.starts_with(prefix);
    const Switches& switches = of_nodes ? node_switches_ : switches_;
    const auto found = switches.find(of_nodes ? text.substr(prefix.size()) : text);
    require(found != switches.end(),
            "{}: '{}' must be a switch of the network, or node.SWITCH, a switch of the nodes",
            end.place(), text);
    return found->second;
  }

  template <class Find>
  void connect(const Value& link, const Find& find) {
    link.require_object({"from", "to", "bandwidth", "latency", "duplex"});
    const Value rate = link.at("bandwidth"), latency = link.at("latency");
    Cable cable{.rate = parse_rate(rate.place(), rate.text()), .latency = duration_of(latency)};
    require(cable.rate >= 1, "{}: '{}' is less than a byte a second", rate.place(), rate.text());
    constexpr std::chrono::seconds most_latency{1000};  // all links of a route still fit 64 bits
    require(cable.latency <= most_latency, "{}: '{}' is more than {} s", latency.place(),
            latency.text(), most_latency.count());
    if (link.has("duplex")) {
      const Value duplex = link.at("duplex");
      require(duplex.text() == "full" || duplex.text() == "half", "{}: '{}' must be full or half",
              duplex.place(), duplex.text());
      cable.both_ways_share = duplex.text() == "half";
    }
    const Value from = link.at("from"), to = link.at("to");
    for (const int a : find(from)) {
      for (const int b : find(to)) {
        if (a != b) add_cable(cable, fmt::format("{} to {}", from.text(), to.text()), a, b);
      }
      require(parts_.links.size() <= most_links, "{}: more than {} links; use a switch",
              link.place(), most_links);
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
  int nodes_ = 1;
  int per_node_ = 0;
  Switches node_switches_;  ///< of each node
  Switches switches_;
};

}  // namespace

namespace {

/// JSON keeps the last of two members with one key; here both would be meant.
class KeysOnce {
 public:
  explicit KeysOnce(const std::string& place) : place_(place) {}
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    require(depth <= most_depth, "{}: it is nested more than {} deep", place_, most_depth);
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event != Json::parse_event_t::key) return true;
    const auto key = value.get<std::string>();
    require(open_.back().insert(key).second, "{}: key '{}' is given twice in one object", place_,
            key);
    return true;
  }

 private:
  static constexpr int most_depth = 20;
  const std::string& place_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

Cluster parse_cluster(const std::string& text, const std::string& place) {
  Json json;
  try {
    json = Json::parse(text, KeysOnce(place));
  } catch (const Json::parse_error& error) {
    const auto upto = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), text.begin() + upto, '\n');
    fail("{}, line {}: this is not JSON", place, line);
  } catch (const Json::out_of_range&) {
    fail("{}: a number in it is too large", place);
  }
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
