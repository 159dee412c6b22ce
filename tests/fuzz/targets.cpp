#include "tests/fuzz/targets.h"

#include <cstdlib>
#include <string>

#include "files/first_replica.h"
#include "files/lowering.h"
#include "files/native_json.h"
#include "files/queue_time.h"
#include "files/schedule_file.h"
#include "files/table_schedule.h"
#include "schedules/error.h"

namespace unlatch::fuzz {
namespace {

void promise(bool kept) {
  if (!kept) std::abort();
}

/// A valid file builds, also twice over, and comes back from both forms.
void use(const files::ScheduleFile& file) {
  const Schedule schedule = file.schedule(file.shape().batches);
  const TaskGraph graph = schedule.build();
  if (file.shape().batches == 1) {
    promise(file.schedule(2).build().size() >= graph.size());
  }
  const files::NativeSchedule back = files::parse_native_json(files::native_json(schedule));
  promise(back.problems.empty());
  promise(back.schedule.build().size() == graph.size());
  if (const auto one = files::first_replica(schedule)) promise(one->violations().empty());
  if (file.form() != files::ScheduleFile::Form::csv) return;
  const files::ActionTable table = files::table_of(schedule);
  promise(files::parse_pipeline_csv(files::pipeline_csv(table)).table == table);
  if (files::has_messages(file.table())) return;
  const files::ActionTable lowered = files::with_messages(table);
  promise(files::unit_steps(lowered, file.shape()) > 0);
  promise(files::queue_time(lowered) > 0);
  const files::ScheduleFile again("lowered.csv", files::pipeline_csv(lowered));
  promise(again.violations().empty());
}

void read(const char* name, std::string_view text) {
  try {
    const files::ScheduleFile file(name, text);
    const std::vector<Violation> violations = file.violations();
    for (const Violation& violation : violations) {
      promise(!violation.rule.empty() && !violation.message.empty());
    }
    if (!violations.empty()) return;
    use(file);
    file.violations(files::Sends::grouped);
    file.violations(files::Sends::rendezvous);
  } catch (const Error&) {
    // What a user is told; anything else is a fault.
  }
}

}  // namespace

void pipeline_csv(std::string_view text) { read("fuzz.csv", text); }
void native_json(std::string_view text) { read("fuzz.json", text); }

}  // namespace unlatch::fuzz
