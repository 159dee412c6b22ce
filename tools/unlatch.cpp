// unlatch: the program. Finds the command, reads its flags, runs it, and turns errors into one
// message and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "tools/command.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "tools/placed_errors.h"
#include "tools/terminal.h"

namespace {

using namespace unlatch;
using tools::Command;

constexpr int done = 0, check_failed = 1, wrong_request = 2;

std::vector<Command> commands() {
  return {tools::schedules_command(), tools::show_command(),       tools::simulate_command(),
          tools::compare_command(),   tools::stragglers_command(), tools::numerics_command(),
          tools::train_command(),     tools::eval_command(),       tools::profile_command(),
          tools::partition_command(), tools::diff_command(),       tools::check_command(),
          tools::convert_command(),   tools::search_command()};
}

std::string overview(const std::vector<Command>& all) {
  std::string text =
      "Pipeline-training schedules as dependency graphs: simulated, compared and really run.\n\n"
      "Usage: unlatch COMMAND [flags]\n       unlatch COMMAND FILE.json [flags]\n\nCommands:\n";
  for (const Command& command : all)
    text += fmt::format("  {:<11} {}\n", command.name, command.summary);
  return text +
         "\n'unlatch COMMAND --help' lists the flags of a command.\n"
         "Exit codes: 0 done; 1 ran, but a check failed; 2 the request was wrong or impossible.\n";
}

const Command& find_command(const std::vector<Command>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Command::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  names.reserve(all.size());
  for (const Command& command : all) names.push_back(command.name);
  fail("unknown command '{}'.{}\n  'unlatch --help' lists the commands", name,
       suggest(name, names));
}

int run(const std::vector<std::string>& words) {
  const auto all = commands();
  require(!words.empty(), "no command was given\n  'unlatch --help' lists the commands");
  const std::string& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    tools::print(overview(all));
    return done;
  }
  if (first == "--version") {
    tools::print("unlatch " UNLATCH_VERSION "\n");
    return done;
  }
  const Command& command = find_command(all, first);
  const tools::Arguments arguments =
      tools::parse_options(command, {words.begin() + 1, words.end()});
  if (arguments.has("help")) {
    tools::print(tools::help_text(command));
    return done;
  }
  if (arguments.has("version")) {
    tools::print("unlatch " UNLATCH_VERSION "\n");
    return done;
  }
  try {
    return command.run(arguments);
  } catch (const Error& error) {
    throw Error(tools::placed(arguments, error.what()));
  }
}

/// One message for whatever went wrong; the exit code it means.
int guarded(const std::vector<std::string>& words) {
  try {
    tools::prepare_process();
    tools::limit_memory();
    const int code = run(words);
    tools::finish_output();
    return code;
  } catch (const RunError& error) {
    tools::say_error(error.what());
    return check_failed;
  } catch (const std::bad_alloc&) {
    tools::say_error(
        "out of memory; ask for fewer stages, micro-batches or batches, or a smaller model or "
        "file");
  } catch (const std::system_error& error) {
    const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
    tools::say_error(no_thread ? "a thread cannot be started; lower --threads, or raise the limits "
                                 "on processes and memory (ulimit -u, ulimit -v)"
                               : error.what());
  } catch (const std::exception& error) {
    tools::say_error(error.what());
  }
  return wrong_request;
}

}  // namespace

int main(int argc, char** argv) { return guarded({argv + 1, argv + argc}); }
