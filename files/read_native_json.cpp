// Reading the native form: strict about keys, exact about places.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "files/json_object.h"
#include "files/native_json.h"
#include "files/native_learning.h"
#include "files/native_tokens.h"
#include "files/placement.h"
#include "files/read_program.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

using Json = nlohmann::json;

constexpr int most_stages = 1 << 20;

std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("line {}, character {}", line, column);
}

/// Parses, and refuses an object that holds a key twice: the parser would keep the last one.
Json parse(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      require(keys.back().insert(key).second, "key '{}' is given twice in one object", key);
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    fail("{}: this is not JSON", place_of(text, error.byte));
  } catch (const Json::exception&) {
    fail("a number or string of the JSON is out of range");
  }
}

Shape read_shape(const Json& json) {
  const JsonObject object(
      json, "shape",
      {"stages", "chunks", "microbatches", "batches", "drain", "copies", "replicas"});
  constexpr int most = Edge::max_tasks - 1;
  Shape shape;
  shape.stages = object.whole("stages", 1, most_stages);
  shape.chunks = object.whole("chunks", 1, most_stages, 1);
  shape.micro_batches = object.whole("microbatches", 1, most);
  shape.batches = object.whole("batches", 1, most, 1);
  shape.drain = object.yes("drain", true);
  shape.copies = object.whole("copies", 1, most_stages, 1);
  shape.replicas = object.whole("replicas", 1, most_stages, 1);
  require(shape.stages % shape.chunks == 0, "shape: {} stages are no multiple of {} chunks a rank",
          shape.stages, shape.chunks);
  require(shape.stages % shape.copies == 0 && shape.micro_batches % shape.copies == 0,
          "shape: {} copies of the model must divide stages ({}) and micro-batches ({})",
          shape.copies, shape.stages, shape.micro_batches);
  require(shape.copies % shape.replicas == 0, "shape: {} replicas must divide {} copies",
          shape.replicas, shape.copies);
  const int on_one_set = shape.copies / shape.replicas;
  require(shape.chunks % on_one_set == 0,
          "shape: {} copies of the model share each set of ranks, so every rank holds a stage of "
          "each, but chunks is {}; copies on ranks of their own are replicas",
          on_one_set, shape.chunks);
  const auto all = std::int64_t{shape.micro_batches} * shape.batches;
  require(all <= most, "shape: {} micro-batches in all; a run has at most {}", all, most);
  return shape;
}

/// So that a small file cannot ask for a huge index.
void require_enough_tasks(const Shape& shape, const Json& programs) {
  std::int64_t entries = 0;
  for (const Json& program : programs) entries += static_cast<std::int64_t>(program.size());
  const auto forwards =
      std::int64_t{shape.stages} * shape.micro_batches / shape.copies * shape.batches;
  require(forwards <= entries,
          "the shape has {} stages and {} micro-batches, which need {} forwards alone, but the "
          "programs hold {} entries",
          shape.stages, shape.all_micro_batches(), forwards, entries);
}

Schedule read_head(const JsonObject& document) {
  require(document.text("format") == format_name, "format is '{}', not '{}'",
          document.text("format"), format_name);
  document.whole("version", format_version, format_version);
  const Shape shape = read_shape(document.at("shape"));
  Schedule schedule(document.has("name") ? document.text("name") : "schedule", shape);
  if (document.has("placement")) {
    const Json& placement = document.list("placement", shape.stages, "stage");
    for (const Stage k : up_to<Stage>(shape.stages)) {
      schedule.place(
          k, {whole_value(placement[k.value], "a rank of placement", 0, shape.ranks() - 1)});
    }
  }
  if (document.has("learning")) {
    schedule.learning() = read_learning(document.at("learning"), shape, schedule.learning());
  }
  return schedule;
}

}  // namespace

NativeSchedule parse_native_json(std::string_view text) {
  const Json json = parse(text);
  const JsonObject document(
      json, "the document",
      {"$schema", "format", "version", "name", "shape", "placement", "learning", "programs"});
  NativeSchedule result{read_head(document), {}};
  const Shape& shape = result.schedule.shape();
  const Json& programs = document.list("programs", shape.ranks(), "rank");
  require_enough_tasks(shape, programs);
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    read_program(programs[r.value], r, result.schedule, result.problems);
  }
  if (document.has("placement")) {
    if (auto misplaced = misplaced_stages(result.schedule)) {
      result.problems.insert(result.problems.begin(), std::move(*misplaced));
    }
  }
  place_by_tasks(result.schedule);
  return result;
}

}  // namespace unlatch::files
