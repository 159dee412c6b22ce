#include "tools/profile_output.h"

#include <algorithm>

#include "schedules/error.h"
#include "tools/command.h"
#include "tools/outputs.h"
#include "tools/placed_errors.h"
#include "tools/terminal.h"

namespace unlatch::tools {

ProfileOutput::ProfileOutput(const Arguments& arguments) : json_(arguments.has("json")) {
  require_outputs(arguments, {"save"});
  if (const auto path = arguments.text("save")) {
    reading(arguments, "save", [&] { file_.emplace(*path); });
  }
}

void ProfileOutput::give(const Json& document, const std::string& text) {
  if (file_) {
    *file_ << document.dump(1) << '\n';
    file_->commit();
  }
  if (json_) {
    print_json(document);
  } else {
    print(text);
  }
}

void require_no_others(const Arguments& arguments, std::string_view way,
                       const std::vector<std::string_view>& allowed) {
  for (const std::string_view name : profile_command().flag_names()) {
    const bool fits = name == way || std::ranges::find(allowed, name) != allowed.end();
    require(fits || !arguments.has(name), "{} has no meaning with {}; leave it out",
            arguments.place(name), arguments.place(way));
  }
}

}  // namespace unlatch::tools
