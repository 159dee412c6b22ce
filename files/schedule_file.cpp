#include "files/schedule_file.h"

#include <algorithm>
#include <utility>

#include "files/message_order.h"
#include "files/native_json.h"
#include "files/repeat.h"
#include "files/table_schedule.h"
#include "files/waits.h"
#include "schedules/error.h"
#include "schedules/races.h"

namespace unlatch::files {
namespace {

bool holds_json(std::string_view path, std::string_view text) {
  if (path.ends_with(".json") || path.ends_with(".json.gz")) return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

void append(std::vector<Violation>& all, std::vector<Violation> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

ScheduleFile::ScheduleFile(std::string path, std::string_view text) : path_(std::move(path)) {
  form_ = holds_json(path_, text) ? Form::json : Form::csv;
  try {
    form_ == Form::json ? read_json(text) : read_csv(text);
  } catch (const Error& error) {
    fail("{}: {}", path_, error.what());
  }
}

void ScheduleFile::read_csv(std::string_view text) {
  PipelineCsv csv = parse_pipeline_csv(text);
  table_ = std::move(csv.table);
  dialect_ = csv.dialect;
  problems_ = std::move(csv.problems);
  shape_ = shape_of(table_);
}

void ScheduleFile::read_json(std::string_view text) {
  NativeSchedule native = parse_native_json(text);
  native_ = std::move(native.schedule);
  problems_ = std::move(native.problems);
  shape_ = native_->shape();
}

std::vector<Violation> ScheduleFile::violations(Sends sends) const {
  std::vector<Violation> all = problems_;
  if (form_ == Form::csv) {
    append(all, shape_problems(table_, shape_));
    if (all.size() > problems_.size()) return all;
    append(all, checked_with_messages(schedule_of(table_, shape_, path_, Updates::none), sends));
  } else {
    append(all, native_->violations());
    if (all.empty() && sends != Sends::buffered) {
      if (auto deadlock = message_deadlock(sends)) all.push_back(std::move(*deadlock));
    }
  }
  if (all.empty()) append(all, races(schedule(shape_.batches).build()));
  return all;
}

/// The rules of the programs, then those of the messages, then what blocking sends add.
std::vector<Violation> ScheduleFile::checked_with_messages(const Schedule& bare,
                                                           Sends sends) const {
  std::vector<Violation> all = bare.violations();
  append(all, message_violations(table_, bare));
  append(all, wait_violations(table_, shape_));
  if (!all.empty() || !problems_.empty()) return all;
  if (auto deadlock = wait_deadlock(table_)) all.push_back(std::move(*deadlock));
  if (!all.empty() || sends == Sends::buffered) return all;
  if (auto deadlock = message_deadlock(sends)) all.push_back(std::move(*deadlock));
  return all;
}

std::optional<Violation> ScheduleFile::message_deadlock(Sends sends) const {
  if (form_ == Form::json) return send_deadlock(*native_, sends);
  if (has_messages(table_)) return send_deadlock(table_, sends);
  std::optional<Violation> deadlock = send_deadlock(in_program_order(table_, 1), sends);
  if (deadlock) deadlock->column = -1;  // of a message that no cell of the file holds
  return deadlock;
}

void ScheduleFile::require_valid() const {
  const std::vector<Violation> all = violations();
  if (all.empty()) return;
  const std::string others =
      all.size() == 1 ? "" : fmt::format(" ({} violations in all)", all.size());
  fail("{}: {}{}; 'unlatch check' lists every fault of a file", path_, all.front().message, others);
}

Schedule ScheduleFile::schedule(int batches) const {
  const Schedule one =
      native_ ? *native_ : schedule_of(table_, shape_, path_, Updates::after_last_backward);
  if (batches == shape_.batches) return one;
  require(
      shape_.batches == 1,
      "{0} holds {1} batches, {2} were asked for; leave --batches out, or give train --steps {1}",
      path_, shape_.batches, batches);
  return repeated(one, batches);
}

}  // namespace unlatch::files
