// ScheduleFile: a schedule read from a file of either form, and everything that is wrong with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/message_checks.h"
#include "files/pipeline_csv.h"
#include "schedules/registry.h"

namespace unlatch::files {

class ScheduleFile {
 public:
  enum class Form { csv, json };

  /// Reads the text of a file called `path`: JSON if the name ends in .json (or .json.gz) or the
  /// text begins with '{', else CSV. Throws Error for text that is no schedule file at all; single
  /// faults become violations.
  ScheduleFile(std::string path, std::string_view text);

  Form form() const { return form_; }
  const std::string& path() const& { return path_; }
  /// The size it was written for. CSV: one batch of as many micro-batches as it names.
  const Shape& shape() const { return shape_; }
  /// CSV only: what the letters meant, and the table itself.
  Dialect dialect() const { return dialect_; }
  const ActionTable& table() const& { return table_; }

  /// Every broken rule, in the order of the file where they have a place in it; empty when the
  /// schedule can run. With blocking sends also the deadlock that they cause.
  std::vector<Violation> violations(Sends sends = Sends::buffered) const;

  /// The deadlock of its messages under such sends: those that it holds, or else those that its
  /// work needs. The file must be valid.
  std::optional<Violation> message_deadlock(Sends sends) const;

  /// Throws Error that names the first violation and says how many there are.
  void require_valid() const;

  /// The programs for that many batches. A file of one batch is repeated, batch after batch; CSV
  /// gets an update of each stage after its last backward. Throws Error for a file that is not
  /// valid or holds another number of batches.
  Schedule schedule(int batches) const;

 private:
  void read_csv(std::string_view text);
  void read_json(std::string_view text);
  std::vector<Violation> checked_with_messages(const Schedule& bare, Sends sends) const;

  std::string path_;
  Form form_ = Form::csv;
  Dialect dialect_ = Dialect::now;
  ActionTable table_;
  Shape shape_;
  std::optional<Schedule> native_;
  std::vector<Violation> problems_;  ///< found while reading
};

/// A method of the catalogue's kind whose only shape is that of the file; reads it no more.
std::shared_ptr<const Method> method_of(std::shared_ptr<const ScheduleFile> file);

}  // namespace unlatch::files
