#include "tools/search_schedules.h"

#include <algorithm>
#include <utility>

#include "schedules/error.h"
#include "tools/placed_errors.h"
#include "tools/schedule_input.h"

namespace unlatch::tools {
namespace {

/// Keys that change order, time and memory of a schedule but not what it learns: varied where a
/// schedule is named without keys.
constexpr std::string_view varied_keys[]{"recompute", "backward", "form", "order", "limit", "rule"};
constexpr std::string_view staleness_key = "staleness";

/// False for those whose gradients are not back-propagation's, however old, and for families that
/// only differ from others on replicas.
bool is_usual(const Method& method) {
  const ScheduleSpec spec = ScheduleSpec::parse(method.name);
  const bool is_for_replicas =
      std::ranges::any_of(method.keys, [](const Key& key) { return key.name == inside_key; });
  if (is_for_replicas) return false;
  const Shape small{.stages = 2 * method.chunks.usual,
                    .chunks = method.chunks.usual,
                    .micro_batches = 4 * method.copies};
  return spec.make(small).learning().local_gradients.source == GradientSource::next_stage;
}

/// "name:key=word,key=word" for all words of the varied keys, the usual ones left out.
std::vector<std::string> variants(const Method& method) {
  std::vector<std::vector<std::string>> all{{}};
  for (const Key& key : method.keys) {
    const bool varies = std::ranges::find(varied_keys, key.name) != std::end(varied_keys);
    if (!varies || key.type != Key::Type::word) continue;
    std::vector<std::vector<std::string>> longer;
    for (const auto& settings : all) {
      for (const std::string_view word : key.words) {
        longer.push_back(settings);
        if (word != key.words.front()) {
          longer.back().push_back(fmt::format("{}={}", key.name, word));
        }
      }
    }
    all = std::move(longer);
  }
  std::vector<std::string> texts;
  for (const auto& settings : all) {
    texts.push_back(
        fmt::format("{}{}{}", method.name, settings.empty() ? "" : ":", fmt::join(settings, ",")));
  }
  return texts;
}

}  // namespace

std::vector<ScheduleSpec> schedules_to_try(const Arguments& arguments) {
  std::vector<ScheduleSpec> specs;
  const auto add = [&](ScheduleSpec spec) {
    const auto known = [&](const ScheduleSpec& other) { return other.text() == spec.text(); };
    if (std::ranges::none_of(specs, known)) specs.push_back(std::move(spec));
  };
  const auto add_variants = [&](const Method& method) {
    for (const std::string& text : variants(method)) add(ScheduleSpec::parse(text));
  };
  for (const std::string& text : arguments.all("schedule")) {
    const ScheduleSpec spec = reading(arguments, "schedule", [&] { return read_schedule(text); });
    require(!spec.method().own_shape,
            "--schedule {}: a schedule file has its shape, a search chooses one; "
            "'unlatch compare' takes files",
            text);
    if (text.find(':') != std::string::npos) {
      add(spec);
    } else {
      add_variants(spec.method());
    }
  }
  if (arguments.has("schedule")) return specs;
  for (const Method& method : methods()) {
    if (is_usual(method)) add_variants(method);
  }
  return specs;
}

std::vector<ScheduleSpec> with_staleness(const ScheduleSpec& spec, int stages,
                                         const std::vector<int>& steps) {
  const auto& keys = spec.method().keys;
  const bool takes_it = std::ranges::find(keys, staleness_key, &Key::name) != keys.end();
  if (!takes_it || spec.text().find(fmt::format("{}=", staleness_key)) != std::string::npos) {
    return {spec};
  }
  std::vector<ScheduleSpec> specs;
  for (const int step : steps) {
    std::vector<int> by_stage;
    for (int k = 0; k < stages; ++k) by_stage.push_back(step * (stages - 1 - k));
    const bool has_keys = spec.text().find(':') != std::string::npos;
    specs.push_back(ScheduleSpec::parse(fmt::format("{}{}{}={}", spec.text(), has_keys ? "," : ":",
                                                    staleness_key, fmt::join(by_stage, "/"))));
  }
  return specs;
}

}  // namespace unlatch::tools
