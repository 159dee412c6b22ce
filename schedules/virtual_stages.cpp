#include "schedules/virtual_stages.h"

#include <algorithm>

#include "schedules/error.h"

namespace unlatch {
namespace {

int rounds_group(std::string_view name, int m, int group) {
  const int rounds = std::max(1, m / group);
  require(m % rounds == 0,
          "{}: rule=rounds cuts a batch into {} groups of equal size (micro-batches div group = {} "
          "div {}), which {} micro-batches do not allow; take a multiple of {}, another group or "
          "rule=megatron",
          name, rounds, m, group, m, rounds);
  return m / rounds;
}

int megatron_group(std::string_view name, int ranks, int m, int group) {
  require(group <= m,
          "{}: rule=megatron needs at least one full group of micro-batches: {} a batch, not {}; "
          "take more, or rule=rounds",
          name, group, m);
  const int rest = m % group;
  require(rest == 0 || rest >= ranks,
          "{}: rule=megatron leaves a last group of {} micro-batches ({} mod {}), which must be 0 "
          "or at least one a rank ({}); take other micro-batches or another group",
          name, rest, m, group, ranks);
  return group;
}

}  // namespace

std::vector<Key> group_keys() {
  return {{.name = "group",
           .type = Key::Type::number,
           .help = "micro-batches that pass a chunk together, at least one a rank; 0: P"},
          {.name = "rule",
           .words = {"rounds", "megatron"},
           .help = "M no multiple of it: larger groups of equal size, or a shorter last one"}};
}

void resolve_groups(std::string_view name, const Shape& shape, Options& options) {
  constexpr int most = 1 << 30;
  const int asked = whole_number(options, name, "group", 0, most);
  const int ranks = shape.ranks();
  const int group = asked == 0 ? ranks : asked;
  require(group >= ranks,
          "{}: group={} is less than one micro-batch a rank ({} ranks), so that ranks would wait "
          "for each other; take at least {}",
          name, group, ranks, ranks);
  const int m = shape.micro_batches;
  options.set("group", options.is("rule", "megatron")
                           ? static_cast<double>(megatron_group(name, ranks, m, group))
                           : static_cast<double>(rounds_group(name, m, group)));
}

std::vector<int> chunk_of_step(const Shape& shape, const Options& options) {
  const int group = static_cast<int>(options.number("group"));
  std::vector<int> chunks;
  for (int first = 0; first < shape.micro_batches; first += group) {
    const int size = std::min(group, shape.micro_batches - first);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      chunks.insert(chunks.end(), size, chunk);
    }
  }
  return chunks;
}

}  // namespace unlatch
