#include "files/read_program.h"

#include <nlohmann/json.hpp>

#include "files/json_object.h"
#include "files/native_tokens.h"
#include "schedules/error.h"

namespace unlatch::files {
namespace {

using Json = nlohmann::json;
using Item = Program::Item;

constexpr std::size_t most_problems = 1000;

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
    problems_.push_back(
        {std::move(rule), {std::move(task)}, rank_.value, column_, std::move(message)});
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
    const JsonObject object(entry, "the entry",
                            {"task", "after", "weights", "version", "lane", "beside", "ends_block",
                             "capacity", "last"});
    if (object.has("after")) {
      require(entry.size() == 1, "'after' stands alone");
      return add_after(object.text("after"), item);
    }
    read_options(object, item);
    add_task(object.text("task"), item);
  }

  static void read_options(const JsonObject& object, Item& item) {
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
    item.ends_block = object.yes("ends_block", false);
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
    require_fitting_options(item);
    if (token.op != Op::update) {
      require(item.micro_batch == not_given, "only U has a last micro-batch");
      item.micro_batch = {token.number};
    } else if (!number_update(token, text, item)) {
      return;
    }
    program_.append(item);
    counter_.note(item);
  }

  void require_fitting_options(const Item& item) const {
    require(item.weights == Weights::current || gives_input_gradient(item.op),
            "weights are chosen by B and I alone");
    require(item.version == newest || item.op == Op::forward, "a version is chosen by F alone");
    require(item.engine == Engine::compute || item.op == Op::recompute,
            "only R runs on the recompute lane");
    require(
        item.capacity == unbounded || item.op == Op::push_forward || item.op == Op::push_backward,
        "only a push has a capacity");
    require(!item.ends_block || (item.op == Op::backward && follows_forward()),
            "only a B can end a block, with the F before it");
    require(!item.beside_previous || (item.engine == Engine::recompute && follows_forward()),
            "only an R on the recompute lane can stand beside the F before it");
  }

  bool follows_forward() const {
    const Item* const before = program_.last();
    return before != nullptr && before->kind == Item::Kind::task && before->op == Op::forward;
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

}  // namespace

void read_program(const Json& entries, Rank rank, Schedule& schedule,
                  std::vector<Violation>& problems) {
  ProgramReader(schedule, rank, problems).read(entries);
}

}  // namespace unlatch::files
