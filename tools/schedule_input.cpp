#include "tools/schedule_input.h"

#include "traces/input_file.h"

namespace unlatch::tools {

ScheduleSpec read_schedule(std::string_view text) {
  constexpr std::string_view prefix = "file:";
  if (!text.starts_with(prefix)) return ScheduleSpec::parse(text);
  text.remove_prefix(prefix.size());
  return ScheduleSpec::of(files::method_of(read_schedule_file(std::string(text))));
}

std::shared_ptr<const files::ScheduleFile> read_schedule_file(const std::string& path) {
  return std::make_shared<const files::ScheduleFile>(path, read_text(path));
}

}  // namespace unlatch::tools
