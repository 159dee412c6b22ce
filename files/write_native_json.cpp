// Writing the native form.
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "files/native_json.h"
#include "files/native_learning.h"
#include "files/native_tokens.h"

namespace unlatch::files {
namespace {

using Buffer = fmt::memory_buffer;
using Item = Program::Item;

template <class... Args>
void put(Buffer& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The options of a task that its token does not hold, each with a comma before it.
std::string options_of(const Item& item, const UpdateCounter& counter) {
  std::string text;
  if (item.weights == Weights::as_forward) text += R"(,"weights":"as_forward")";
  if (item.version != newest) text += fmt::format(R"(,"version":{})", item.version);
  if (item.engine == Engine::recompute) text += R"(,"lane":"recompute")";
  if (item.beside_previous) text += R"(,"beside":true)";
  if (item.ends_block) text += R"(,"ends_block":true)";
  if (item.capacity != unbounded) text += fmt::format(R"(,"capacity":{})", item.capacity);
  if (item.op == Op::update && item.micro_batch != counter.newest_gradient(item.stage)) {
    text += fmt::format(R"(,"last":{})", item.micro_batch.value);
  }
  return text;
}

void put_item(Buffer& out, const Item& item, const UpdateCounter& counter) {
  const bool update = item.op == Op::update;
  const int number = update ? counter.updates(item.stage) : item.micro_batch.value;
  const std::string token = fmt::format("{}{}{}", item.stage.value, letter(item.op), number);
  if (item.kind == Item::Kind::after) return put(out, R"({{"after":"{}"}})", token);
  const std::string options = options_of(item, counter);
  if (options.empty()) return put(out, R"("{}")", token);
  put(out, R"({{"task":"{}"{}}})", token, options);
}

void put_program(Buffer& out, const Program& program, int stages) {
  UpdateCounter counter(stages);
  int step = 0;
  bool first = true;
  const auto separate = [&] {
    if (!std::exchange(first, false)) put(out, ",");
  };
  put(out, "    [");
  for (const Item& item : program.items()) {
    if (item.kind == Item::Kind::barrier) {
      separate();
      put(out, R"("{}")", barrier_word);
      continue;
    }
    for (; step < item.step; ++step) {
      separate();
      put(out, R"("{}")", next_step_word);
    }
    separate();
    put_item(out, item, counter);
    counter.note(item);
  }
  put(out, "]");
}

void put_shape(Buffer& out, const Shape& shape) {
  put(out,
      "  \"shape\": {{\"stages\": {}, \"chunks\": {}, \"microbatches\": {}, \"batches\": {}, "
      "\"drain\": {}, \"copies\": {}, \"replicas\": {}}},\n",
      shape.stages, shape.chunks, shape.micro_batches, shape.batches, shape.drain, shape.copies,
      shape.replicas);
}

}  // namespace

std::string native_json(const Schedule& schedule) {
  const Shape& shape = schedule.shape();
  Buffer out;
  put(out, "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {},\n", format_name,
      format_version, quoted(schedule.specification()));
  put_shape(out, shape);
  std::vector<int> placement;
  for (const Stage k : up_to<Stage>(shape.stages)) placement.push_back(schedule.rank_of(k).value);
  put(out, "  \"placement\": [{}],\n", fmt::join(placement, ", "));
  put(out, "  \"learning\": {},\n", learning_json(schedule.learning()).dump());
  put(out, "  \"programs\": [\n");
  for (const Rank r : up_to<Rank>(shape.ranks())) {
    put_program(out, schedule.programs()[r.value], shape.stages);
    put(out, "{}\n", r.value + 1 < shape.ranks() ? "," : "");
  }
  put(out, "  ]\n}}\n");
  return fmt::to_string(out);
}

}  // namespace unlatch::files
