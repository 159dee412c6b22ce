// Runs the program the way a person does: through a shell, in a folder of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace unlatch::test {

struct Outcome {
  int code = -1;  ///< exit code; 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

/// A folder that is removed with all it holds.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const& { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  /// How long a task took, by the CSV file of --tasks.
  double length_ms(const std::string& file, const std::string& task) const;
  /// Files in it, hidden ones too, without those that capture the output.
  int files() const;

  /// `unlatch ARGUMENTS`, the arguments in shell syntax; `before` goes in front of the program.
  Outcome run(const std::string& arguments, const std::string& before = "") const;
  /// The JSON document that `unlatch ARGUMENTS --json` prints; fails the test unless it exits 0.
  nlohmann::json json(const std::string& arguments) const;

 private:
  std::string path_;
};

/// One message on standard error, beginning with "error: "; nothing on standard output.
void expect_refused(const Outcome& outcome, int code = 2);

}  // namespace unlatch::test
