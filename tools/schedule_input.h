// Schedules as the command line names them: of the catalogue, or file:PATH.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "files/schedule_file.h"
#include "schedules/registry.h"
#include "tools/arguments.h"

namespace unlatch::tools {

/// NAME[:key=value,..] or file:PATH. Throws Error for an unknown name and for a file that cannot be
/// read or breaks a rule.
ScheduleSpec read_schedule(std::string_view text);

/// What --sends asks for.
files::Sends asked_sends(const Arguments& arguments);

/// Throws Error when the messages of a schedule, batch after batch and in one replica, wait for
/// each other under such sends; names the shortest cycle. Those of a file count as it holds them.
void require_no_send_deadlock(const ScheduleSpec& spec, Shape shape, files::Sends sends);

/// The messages of one batch of a schedule file that holds them; of others nothing.
std::optional<files::ActionTable> own_messages(const ScheduleSpec& spec);

/// What --send-engines asks for: all sends of a rank in one queue.
bool asked_one_send_engine(const Arguments& arguments);

/// The file, read and not checked yet. Throws Error when it cannot be read.
std::shared_ptr<const files::ScheduleFile> read_schedule_file(const std::string& path);

}  // namespace unlatch::tools
