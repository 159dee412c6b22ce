#include "tests/cuda/standin/counts.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace unlatch::standin {
namespace {

constexpr std::array names = {"mallocs", "host_mallocs", "works", "works_before_a_question"};
std::array<long, names.size()> counts = {};
bool has_asked = false;

void write() {
  const char* path = std::getenv("UNLATCH_STANDIN_COUNTS");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::fprintf(file, "%s\"%s\": %ld", i == 0 ? "{" : ", ", names[i], counts[i]);
  }
  std::fputs("}\n", file);
  std::fclose(file);
}

}  // namespace

void count(Count what) {
  static const int registered = std::atexit(write);
  (void)registered;
  ++counts[static_cast<std::size_t>(what)];
  if (what == Count::works && !has_asked) count(Count::works_before_a_question);
}

void note_question() { has_asked = true; }

}  // namespace unlatch::standin
