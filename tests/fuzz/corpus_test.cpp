// The corpus of the fuzzers, run as it is: inputs that once broke a reader stay covered.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/targets.h"

namespace unlatch::fuzz {
namespace {

template <class Target>
int run_all(const char* folder, Target target) {
  int files = 0;
  const std::filesystem::path corpus(UNLATCH_SOURCE_DIR "/tests/fuzz/corpus");
  for (const auto& entry : std::filesystem::directory_iterator(corpus / folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    target(std::string(std::istreambuf_iterator<char>(in), {}));
    ++files;
  }
  return files;
}

TEST(FuzzCorpus, OfTheCsvReaderKeepsItsPromises) { EXPECT_GT(run_all("csv", pipeline_csv), 0); }
TEST(FuzzCorpus, OfTheJsonReaderKeepsItsPromises) { EXPECT_GT(run_all("json", native_json), 0); }

}  // namespace
}  // namespace unlatch::fuzz
