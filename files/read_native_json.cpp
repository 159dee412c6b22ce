// Reading the native form: strict about keys, exact about places.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "files/native_json.h"
#include "files/native_tokens.h"
#include "files/placement.h"
#include "schedules/error.h"
#include "schedules/suggest.h"

namespace unlatch::files {
namespace {

using Json = nlohmann::json;
using Item = Program::Item;

constexpr int most_stages = 1 << 20;
constexpr std::size_t most_problems = 1000;

std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() + 1
                                                               : before.size() - newline;
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

/// One object of the document, whose keys are all known and read by name.
class Object {
 public:
  Object(const Json& json, std::string name, const std::vector<std::string_view>& known)
      : json_(json), name_(std::move(name)) {
    require(json.is_object(), "{} must be an object", name_);
    for (const auto& [key, value] : json.items()) {
      constexpr std::size_t longest = 60;
      require(std::ranges::find(known, key) != known.end(), "{} has no key '{}'.{} Its keys: {}",
              name_, key.substr(0, longest), suggest(key.substr(0, longest), known),
              fmt::join(known, ", "));
    }
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    require(json_.contains(key), "{} lacks the key '{}'", name_, key);
    return json_[key];
  }
  int whole(const char* key, int least, int most) const {
    return whole_value(at(key), fmt::format("{} of {}", key, name_), least, most);
  }
  int whole(const char* key, int least, int most, int otherwise) const {
    return has(key) ? whole(key, least, most) : otherwise;
  }
  bool yes(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    require(json_[key].is_boolean(), "{} of {} must be true or false", key, name_);
    return json_[key].get<bool>();
  }
  double real(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    require(json_[key].is_number() && std::isfinite(json_[key].get<double>()),
            "{} of {} must be a number", key, name_);
    return json_[key].get<double>();
  }
  std::string text(const char* key) const {
    require(at(key).is_string(), "{} of {} must be a string", key, name_);
    return json_[key].get<std::string>();
  }
  const Json& list(const char* key, int size, std::string_view one_a) const {
    const Json& value = at(key);
    require(value.is_array(), "{} of {} must be a list", key, name_);
    require(static_cast<int>(std::min<std::size_t>(value.size(), most_stages + 1)) == size,
            "{} of {} lists {}, one a {} is needed: {}", key, name_, value.size(), one_a, size);
    return value;
  }

  static int whole_value(const Json& value, std::string_view name, int least, int most) {
    require(value.is_number_integer(), "{} must be a whole number", name);
    const bool too_large = value.is_number_unsigned() &&
                           value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    const std::int64_t number = too_large ? most : value.get<std::int64_t>();
    require(!too_large && number >= least && number <= most,
            "{} is {}; it must be between {} and {}", name, value.dump(), least, most);
    return static_cast<int>(number);
  }

 private:
  const Json& json_;
  std::string name_;
};

Shape read_shape(const Json& json) {
  const Object object(json, "shape",
                      {"stages", "chunks", "microbatches", "batches", "drain", "copies",
                       "replicas"});
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
  const auto all = std::int64_t{shape.micro_batches} * shape.batches;
  require(all <= most, "shape: {} micro-batches in all; a run has at most {}", all, most);
  return shape;
}

/// Reads the entries of one program.
class ProgramReader {
 public:
  ProgramReader(Schedule& schedule, Rank rank, std::vector<Violation>& problems)
      : program_(schedule.on(rank)),
        rank_(rank),
        counter_(schedule.shape().stages),
        stages_(schedule.shape().stages),
        problems_(problems) {}

  void read(const Json& entries) {
    require(entries.is_array(), "program {} must be a list of tasks", rank_.value);
    for (const Json& entry : entries) {
      if (problems_.size() >= most_problems) return;
      try {
        read_entry(entry);
      } catch (const Error& error) {
        report("token", shown(entry), error.what());
      }
      ++column_;
    }
  }

 private:
  static constexpr MicroBatch not_given{-1};

  static std::string shown(const Json& entry) {
    constexpr std::size_t longest = 60;
    const bool has_task =
        entry.is_object() && entry.contains("task") && entry.at("task").is_string();
    const Json& named = has_task ? entry.at("task") : entry;
    return named.is_string() ? named.get<std::string>().substr(0, longest) : named.type_name();
  }

  void report(std::string rule, std::string task, std::string_view why) {
    std::string message =
        fmt::format("row {}, column {}: '{}': {}", rank_.value, column_, task, why);
    problems_.push_back({std::move(rule), {std::move(task)}, rank_.value, column_,
                         std::move(message)});
  }

  void read_entry(const Json& entry) {
    Item item;
    item.micro_batch = not_given;
    item.step = step_;
    item.column = column_;
    if (entry.is_string()) {
      const auto& word = entry.get_ref<const std::string&>();
      if (word == next_step_word) {
        ++step_;
      } else if (word == barrier_word) {
        program_.barrier();
      } else {
        add_task(word, item);
      }
      return;
    }
    const Object object(entry, "the entry",
                        {"task", "after", "weights", "version", "lane", "beside", "capacity",
                         "last"});
    if (object.has("after")) {
      require(entry.size() == 1, "'after' stands alone");
      return add_after(object.text("after"), item);
    }
    read_options(object, item);
    add_task(object.text("task"), item);
  }

  static void read_options(const Object& object, Item& item) {
    constexpr int most = Edge::max_tasks - 1;
    if (object.has("weights")) {
      require(object.text("weights") == "as_forward",
              "weights is 'as_forward', or left out for the current ones");
      item.weights = Weights::as_forward;
    }
    item.version = object.whole("version", 0, most, newest);
    if (object.has("lane")) {
      require(object.text("lane") == "recompute", "lane is 'recompute', or left out");
      item.engine = Engine::recompute;
    }
    item.beside_previous = object.yes("beside", false);
    item.capacity = object.whole("capacity", 1, most, unbounded);
    if (object.has("last")) item.micro_batch.value = object.whole("last", 0, most);
  }

  static Token token_of(const std::string& text) {
    const auto token = parse_token(text);
    require(token.has_value(),
            "no task; write <stage><letter><micro-batch> with a letter of F B I W R U PUSH_F POP_F "
            "PUSH_B POP_B, as in 2F0, or barrier or next_step");
    return *token;
  }

  void add_after(const std::string& text, Item& item) {
    const Token token = token_of(text);
    item.kind = Item::Kind::after;
    item.op = token.op;
    item.stage = token.stage;
    item.micro_batch = {token.number};
    program_.append(item);
  }

  /// The options are those that the task can have; what contradicts them is refused.
  void add_task(const std::string& text, Item& item) {
    const Token token = token_of(text);
    item.op = token.op;
    item.stage = token.stage;
    require_fitting_options(item, text);
    if (token.op != Op::update) {
      require(item.micro_batch == not_given, "only U has a last micro-batch");
      item.micro_batch = {token.number};
    } else if (!number_update(token, text, item)) {
      return;
    }
    program_.append(item);
    counter_.note(item);
  }

  void require_fitting_options(const Item& item, const std::string& text) const {
    require(item.weights == Weights::current || gives_input_gradient(item.op),
            "weights are chosen by B and I alone");
    require(item.version == newest || item.op == Op::forward, "a version is chosen by F alone");
    require(item.engine == Engine::compute || item.op == Op::recompute,
            "only R runs on the recompute lane");
    require(item.capacity == unbounded || item.op == Op::push_forward ||
                item.op == Op::push_backward,
            "only a push has a capacity");
    if (!item.beside_previous) return;
    const auto& items = program_.items();
    require(item.engine == Engine::recompute && !items.empty() &&
                items.back().kind == Item::Kind::task && items.back().op == Op::forward,
            "{} can only stand beside the F before it, on the recompute lane", text);
  }

  /// From the number of an update to its last micro-batch. False when it was reported instead.
  bool number_update(const Token& token, const std::string& text, Item& item) {
    const Stage k = token.stage;
    if (k.value >= stages_) {
      item.micro_batch = {0};
      return true;  // the builder reports the stage
    }
    if (item.micro_batch == not_given) item.micro_batch = counter_.newest_gradient(k);
    if (token.number != counter_.updates(k)) {
      report("order", text,
             fmt::format("this is update {} of stage {}; updates are numbered from 0",
                         counter_.updates(k), k.value));
    }
    if (item.micro_batch != not_given) return true;
    report("missing", text,
           fmt::format("no gradient of stage {} comes before this update", k.value));
    return false;
  }

  Program& program_;
  Rank rank_;
  UpdateCounter counter_;
  int stages_;
  std::vector<Violation>& problems_;
  int column_ = 0;
  int step_ = 0;
};

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

Schedule read_head(const Object& document) {
  require(document.text("format") == format_name, "format is '{}', not '{}'",
          document.text("format"), format_name);
  document.whole("version", format_version, format_version);
  const Shape shape = read_shape(document.at("shape"));
  Schedule schedule(document.has("name") ? document.text("name") : "schedule", shape);
  if (document.has("placement")) {
    const Json& placement = document.list("placement", shape.stages, "stage");
    for (const Stage k : up_to<Stage>(shape.stages)) {
      schedule.place(k, {Object::whole_value(placement[k.value], "a rank of placement", 0,
                                             shape.ranks() - 1)});
    }
  }
  schedule.scale_gradients(document.real("gradient_scale", 1.0));
  schedule.scale_losses(document.real("loss_scale", schedule.loss_scale()));
  schedule.average_weights_every(document.whole("local_updates", 0, Edge::max_tasks - 1, 0));
  if (document.yes("unapplied_gradients", false)) schedule.allow_unapplied_gradients();
  return schedule;
}

}  // namespace

NativeSchedule parse_native_json(std::string_view text) {
  const Json json = parse(text);
  const Object document(json, "the document",
                        {"$schema", "format", "version", "name", "shape", "placement",
                         "gradient_scale", "loss_scale", "local_updates", "unapplied_gradients",
                         "programs"});
  NativeSchedule result{read_head(document), {}};
  const Shape& shape = result.schedule.shape();
  const Json& programs = document.list("programs", shape.ranks(), "rank");
  require_enough_tasks(shape, programs);
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    ProgramReader(result.schedule, r, result.problems).read(programs[r.value]);
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
