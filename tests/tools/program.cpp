#include "tests/tools/program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace unlatch::test {

using testing::IsEmpty;
using testing::StartsWith;

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "unlatch-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data()) == nullptr ? "" : pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void Folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(file(name), std::ios::binary) << text;
}

std::string Folder::read(const std::string& name) const {
  std::ifstream in(file(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

double Folder::length_ms(const std::string& file, const std::string& task) const {
  std::istringstream lines(read(file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(task + ",")) continue;
    std::istringstream entries(line);
    std::vector<std::string> fields;
    for (std::string entry; std::getline(entries, entry, ',');) fields.push_back(entry);
    return std::stod(fields.at(8)) - std::stod(fields.at(7));
  }
  ADD_FAILURE() << "no task " << task;
  return -1;
}

int Folder::files() const {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name != "stdout" && name != "stderr") ++count;
  }
  return count;
}

Outcome Folder::run(const std::string& arguments, const std::string& before) const {
  // A redirection among the arguments comes later and so wins over these.
  const std::string command = fmt::format("cd '{}' && {} '{}' >stdout 2>stderr {}", path_, before,
                                          UNLATCH_PROGRAM, arguments);
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read("stdout");
  outcome.err = read("stderr");
  return outcome;
}

nlohmann::json Folder::json(const std::string& arguments) const {
  const Outcome outcome = run(fmt::format("{} --json", arguments));
  EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << arguments << " printed no JSON";
  return document.is_discarded() ? nlohmann::json::object() : document;
}

void expect_refused(const Outcome& outcome, int code) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("error: "));
  EXPECT_EQ(outcome.err.find("error: ", 1), std::string::npos) << "two messages: " << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
}

}  // namespace unlatch::test
