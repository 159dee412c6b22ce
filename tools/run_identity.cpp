#include "tools/run_identity.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "exec/dnn_version.h"
#include "models/checksum.h"
#include "models/model_file.h"
#include "schedules/error.h"
#include "tools/json_output.h"
#include "tools/train_run.h"

namespace unlatch::tools {
namespace {

/// Settings without an effect on the numbers, or with one that the facts below show.
constexpr std::string_view without_effect[] = {
    "all-reduce",     "checkpoint",    "checkpoint-every", "clock",   "cluster",
    "contention",     "critical-path", "curves",           "data",    "deterministic",
    "evaluate-every", "json",          "metrics",          "overlap", "partition",
    "pause",          "placement",     "profile",          "resume",  "save",
    "slow",           "slow-link",     "straggler",        "tasks",   "threads",
    "trace"};

std::string checksum_of(const models::Dataset& data) {
  models::Checksum checksum;
  checksum.add(std::as_bytes(std::span(data.pixels)));
  checksum.add(std::as_bytes(std::span(data.floats)));
  checksum.add(std::as_bytes(std::span(data.labels)));
  checksum.add(std::as_bytes(std::span(data.mean)));
  checksum.add(std::as_bytes(std::span(data.deviation)));
  return checksum.text();
}

std::string text_of(const models::Dataset& data) {
  return fmt::format("{} ({} samples, checksum {})", data.name, data.samples(), checksum_of(data));
}

/// Layers, which a file may have given.
std::string checksum_of(const models::Model& model) {
  const std::string layers = models::model_json(model);
  models::Checksum checksum;
  checksum.add(std::as_bytes(std::span(layers)));
  return checksum.text();
}

/// Tasks and edges, which a profile may have ordered.
std::string checksum_of(const TaskGraph& graph) {
  models::Checksum checksum;
  for (const TaskId id : graph.ids()) {
    const Task& task = graph.task(id);
    const std::array<std::int32_t, 7> values{
        task.micro_batch.value,
        task.version,
        task.stage.value,
        task.lane,
        static_cast<int>(task.op),
        task.flags,
        static_cast<std::int32_t>(graph.edges_into(id).size())};
    checksum.add(std::as_bytes(std::span(values)));
    checksum.add(std::as_bytes(graph.edges_into(id)));
  }
  return checksum.text();
}

}  // namespace

RunIdentity::RunIdentity(const Arguments& arguments, const TrainingPlan& plan,
                         const TaskGraph& graph, const std::vector<models::StageRange>& ranges) {
  for (const std::string& name : arguments.names()) {
    if (std::ranges::find(without_effect, name) != std::end(without_effect)) continue;
    facts_.emplace_back("--" + name, fmt::format("{}", fmt::join(arguments.all(name), " ")));
  }
  std::vector<int> layers;
  for (const models::StageRange& range : ranges) layers.push_back(range.layers());
  facts_.emplace_back("the model's checksum", checksum_of(plan.model));
  facts_.emplace_back("the partition", fmt::format("{}", fmt::join(layers, "/")));
  facts_.emplace_back("the training data", text_of(plan.data.train));
  facts_.emplace_back("the test data", text_of(plan.data.test));
  facts_.emplace_back("the number of batches", std::to_string(plan.shape.batches));
  facts_.emplace_back("the graph's checksum", checksum_of(graph));
  facts_.emplace_back("the arithmetic", exec::cpu_arithmetic());
}

RunIdentity RunIdentity::parse(const std::string& text) {
  RunIdentity identity;
  const Json json = Json::parse(text, nullptr, false);
  require(json.is_object(), "a checkpoint does not say of which run it is");
  for (const auto& [name, value] : json.items()) {
    require(value.is_string(), "a checkpoint does not say what '{}' was", name);
    identity.facts_.emplace_back(name, value.get<std::string>());
  }
  return identity;
}

std::string RunIdentity::to_text() const {
  Json json = Json::object();
  for (const auto& [name, value] : facts_) json[name] = value;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> RunIdentity::differences_from(const RunIdentity& earlier) const {
  std::vector<std::string> differences;
  for (const auto& [name, value] : facts_) {
    const std::string* before = earlier.find(name);
    if (before == nullptr) {
      differences.push_back(fmt::format("{} was not given, now it is {}", name, value));
    } else if (*before != value) {
      differences.push_back(fmt::format("{} was {}, now it is {}", name, *before, value));
    }
  }
  for (const auto& [name, value] : earlier.facts_) {
    if (find(name) == nullptr) {
      differences.push_back(fmt::format("{} was {}, now it is not given", name, value));
    }
  }
  return differences;
}

const std::string* RunIdentity::find(const std::string& name) const {
  const auto found = std::ranges::find(facts_, name, &std::pair<std::string, std::string>::first);
  return found == facts_.end() ? nullptr : &found->second;
}

}  // namespace unlatch::tools
