#include "files/native_learning.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/json_object.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, GradientSource>, 4> source_words{
    {{"next_stage", GradientSource::next_stage},
     {"local_head", GradientSource::local_head},
     {"synthesiser", GradientSource::synthesiser},
     {"feedback", GradientSource::feedback}}};
constexpr std::array<std::pair<std::string_view, Agreement::Kind>, 4> kind_words{
    {{"sum", Agreement::Kind::sum},
     {"average", Agreement::Kind::average},
     {"server", Agreement::Kind::server},
     {"delayed", Agreement::Kind::delayed}}};

template <class Words, class Enum>
std::string_view word_of(const Words& words, Enum value) {
  for (const auto& [word, meant] : words) {
    if (meant == value) return word;
  }
  fail("a value of the schedule has no word in the native form");
}

template <class Words>
auto meaning_of(const Words& words, const std::string& given, std::string_view what) {
  std::vector<std::string_view> valid;
  for (const auto& [word, meant] : words) {
    if (word == given) return meant;
    valid.push_back(word);
  }
  fail("{} '{}' is none of {}", what, given, fmt::join(valid, ", "));
}

/// Adds a key whose value differs from that of a plain schedule.
template <class T>
void put(Json& json, const char* key, const T& value, const T& plain) {
  if (value != plain) json[key] = value;
}

Json to_json(const LocalGradients& local) {
  return {{"source", word_of(source_words, local.source)},
          {"conditional", local.conditional},
          {"rate", local.rate}};
}

Json to_json(const Agreement& agreement) {
  const Agreement plain;
  Json json{{"kind", word_of(kind_words, agreement.kind)}};
  put(json, "period", agreement.period, plain.period);
  put(json, "warm_up", agreement.warm_up, plain.warm_up);
  put(json, "bound", agreement.bound, plain.bound);
  put(json, "order", agreement.order, plain.order);
  if (agreement.compensation != plain.compensation) {
    json["compensation"] = {{"lambda", agreement.compensation.lambda},
                            {"adaptive", agreement.compensation.adaptive},
                            {"decay", agreement.compensation.decay}};
  }
  if (agreement.local_step != plain.local_step) {
    json["local_step"] = {{"own", agreement.local_step.own},
                          {"server", agreement.local_step.server},
                          {"rate", agreement.local_step.rate},
                          {"decay", agreement.local_step.decay},
                          {"decays_pre", agreement.local_step.decays_pre}};
  }
  if (agreement.compression != plain.compression) {
    json["compression"] = {{"ratio", agreement.compression.ratio},
                           {"momentum", agreement.compression.momentum},
                           {"clip", agreement.compression.clip},
                           {"warm_up", agreement.compression.warm_up},
                           {"step_batches", agreement.compression.step_batches}};
  }
  return json;
}

Json to_json(const Sources& sources) {
  Json lists = Json::array();
  for (const auto& row : sources) {
    Json& list = lists.emplace_back(Json::array());
    for (const MicroBatch i : row) list.push_back(i.value);
  }
  return lists;
}

constexpr int most = Edge::max_tasks - 1;

LocalGradients read_local_gradients(const Json& json) {
  const JsonObject object(json, "local_gradients", {"source", "conditional", "rate"});
  return {.source = meaning_of(source_words, object.text("source"), "source of local_gradients"),
          .conditional = object.yes("conditional", false),
          .rate = object.real("rate", 0)};
}

Sources read_sources(const Json& lists, const Shape& shape) {
  Sources sources;
  for (const Json& list : lists) {
    require(list.is_array() && list.size() == static_cast<std::size_t>(shape.all_micro_batches()),
            "sources must list one micro-batch for each of the {} micro-batches of a stage",
            shape.all_micro_batches());
    std::vector<MicroBatch>& row = sources.emplace_back();
    for (const Json& number : list) {
      row.push_back(
          {whole_value(number, "a micro-batch of sources", 0, shape.all_micro_batches() - 1)});
    }
  }
  return sources;
}

std::vector<std::vector<int>> read_order(const Json& lists, const Shape& shape) {
  std::vector<std::vector<int>> order;
  for (const Json& list : lists) {
    require(list.is_array(), "order of agreement must list the copies' numbers for each stage");
    std::vector<int>& row = order.emplace_back();
    for (const Json& copy : list) {
      row.push_back(whole_value(copy, "a copy in the order of agreement", 0, shape.copies - 1));
    }
  }
  return order;
}

Agreement read_agreement(const Json& json, const Shape& shape) {
  const JsonObject object(
      json, "agreement",
      {"kind", "period", "warm_up", "bound", "order", "compensation", "local_step", "compression"});
  Agreement agreement;
  agreement.kind = meaning_of(kind_words, object.text("kind"), "kind of agreement");
  agreement.period = object.whole("period", 1, most, 1);
  agreement.warm_up = object.whole("warm_up", 0, most, 0);
  agreement.bound = object.whole("bound", 0, Agreement::no_bound, Agreement::no_bound);
  if (object.has("order")) {
    agreement.order = read_order(object.list("order", shape.stages_a_copy(), "stage"), shape);
  }
  if (object.has("compensation")) {
    const JsonObject c(object.at("compensation"), "compensation", {"lambda", "adaptive", "decay"});
    agreement.compensation = {c.real("lambda", 0), c.yes("adaptive", false), c.real("decay", 0)};
  }
  if (object.has("local_step")) {
    const JsonObject s(object.at("local_step"), "local_step",
                       {"own", "server", "rate", "decay", "decays_pre"});
    agreement.local_step = {s.real("own", 1), s.real("server", 0.5), s.real("rate", 0),
                            s.real("decay", 0), s.yes("decays_pre", false)};
  }
  if (object.has("compression")) {
    const JsonObject c(object.at("compression"), "compression",
                       {"ratio", "momentum", "clip", "warm_up", "step_batches"});
    agreement.compression = {c.real("ratio", 1), c.real("momentum", 0.9), c.real("clip", 0),
                             c.whole("warm_up", 0, most, 0), c.whole("step_batches", 1, most, 1)};
  }
  return agreement;
}

}  // namespace

Json learning_json(const Learning& learning) {
  const Learning plain;
  Json json{{"loss_scale", learning.loss_scale}};
  put(json, "gradient_scale", learning.gradient_scale, plain.gradient_scale);
  put(json, "predicts_weights", learning.predicts_weights, plain.predicts_weights);
  put(json, "rescaled_updates", learning.rescaled_updates, plain.rescaled_updates);
  put(json, "drift_decay", learning.drift_decay, plain.drift_decay);
  put(json, "leaves_gradients", learning.leaves_gradients, plain.leaves_gradients);
  if (learning.local_gradients != plain.local_gradients) {
    json["local_gradients"] = to_json(learning.local_gradients);
  }
  if (!learning.sources.empty()) json["sources"] = to_json(learning.sources);
  if (learning.agreement != plain.agreement) json["agreement"] = to_json(learning.agreement);
  return json;
}

Learning read_learning(const Json& json, const Shape& shape, Learning plain) {
  const JsonObject object(
      json, "learning",
      {"gradient_scale", "loss_scale", "predicts_weights", "rescaled_updates", "drift_decay",
       "leaves_gradients", "local_gradients", "sources", "agreement"});
  plain.gradient_scale = object.real("gradient_scale", plain.gradient_scale);
  plain.loss_scale = object.real("loss_scale", plain.loss_scale);
  plain.predicts_weights = object.yes("predicts_weights", plain.predicts_weights);
  plain.rescaled_updates = object.whole("rescaled_updates", 0, most, plain.rescaled_updates);
  plain.drift_decay = object.real("drift_decay", plain.drift_decay);
  require(plain.drift_decay >= 0 && plain.drift_decay < 1,
          "drift_decay of learning is {}, it must lie in [0, 1)", plain.drift_decay);
  plain.leaves_gradients = object.yes("leaves_gradients", plain.leaves_gradients);
  if (object.has("local_gradients")) {
    plain.local_gradients = read_local_gradients(object.at("local_gradients"));
  }
  if (object.has("sources")) {
    plain.sources = read_sources(object.list("sources", shape.stages, "stage"), shape);
  }
  if (object.has("agreement")) plain.agreement = read_agreement(object.at("agreement"), shape);
  return plain;
}

}  // namespace unlatch::files
