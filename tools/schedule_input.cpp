#include "tools/schedule_input.h"

#include "files/message_order.h"
#include "schedules/error.h"
#include "traces/input_file.h"

namespace unlatch::tools {
namespace {

constexpr std::string_view prefix = "file:";

/// Null where the schedule leaves its messages to others.
std::shared_ptr<const files::ScheduleFile> file_with_messages(const ScheduleSpec& spec) {
  const std::string& text = spec.text();
  if (!text.starts_with(prefix)) return nullptr;
  auto file = read_schedule_file(text.substr(prefix.size()));
  return files::has_messages(file->table()) ? file : nullptr;
}

std::optional<Violation> send_deadlock_of(const ScheduleSpec& spec, const Shape& shape,
                                          files::Sends sends) {
  if (const auto file = file_with_messages(spec)) return file->message_deadlock(sends);
  return files::send_deadlock(spec.make(shape), sends);
}

}  // namespace

files::Sends asked_sends(const Arguments& arguments) {
  const std::string word = arguments.choice("sends", {"buffered", "rendezvous", "grouped"});
  return word == "buffered"     ? files::Sends::buffered
         : word == "rendezvous" ? files::Sends::rendezvous
                                : files::Sends::grouped;
}

std::optional<files::ActionTable> own_messages(const ScheduleSpec& spec) {
  const auto file = file_with_messages(spec);
  return file ? std::optional(file->table()) : std::nullopt;
}

bool asked_one_send_engine(const Arguments& arguments) {
  return arguments.choice("send-engines", {"peer", "one"}) == "one";
}

void require_no_send_deadlock(const ScheduleSpec& spec, Shape shape, files::Sends sends) {
  if (sends == files::Sends::buffered) return;
  shape.replicas = 1;
  const auto deadlock = send_deadlock_of(spec, shape, sends);
  require(!deadlock, "{}: {}", spec.text(), deadlock ? deadlock->message : "");
}

ScheduleSpec read_schedule(std::string_view text) {
  if (!text.starts_with(prefix)) {
    require(!text.ends_with(".csv") && !text.ends_with(".json"),
            "unknown schedule '{}'; a schedule file is file:{}", text, text);
    return ScheduleSpec::parse(text);
  }
  text.remove_prefix(prefix.size());
  return ScheduleSpec::of(files::method_of(read_schedule_file(std::string(text))));
}

std::shared_ptr<const files::ScheduleFile> read_schedule_file(const std::string& path) {
  return std::make_shared<const files::ScheduleFile>(path, read_text(path));
}

}  // namespace unlatch::tools
