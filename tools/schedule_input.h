// Schedules as the command line names them: of the catalogue, or file:PATH.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "files/schedule_file.h"
#include "schedules/registry.h"

namespace unlatch::tools {

/// NAME[:key=value,..] or file:PATH. Throws Error for an unknown name and for a file that cannot be
/// read or breaks a rule.
ScheduleSpec read_schedule(std::string_view text);

/// The file, read and not checked yet. Throws Error when it cannot be read.
std::shared_ptr<const files::ScheduleFile> read_schedule_file(const std::string& path);

}  // namespace unlatch::tools
