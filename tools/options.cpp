#include "tools/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "schedules/error.h"
#include "schedules/suggest.h"
#include "tools/scenario.h"

namespace unlatch::tools {
namespace {

/// CLI11 takes the argument after "--name=" for its value; an empty value is an argument here.
std::vector<std::string> with_empty_values(std::vector<std::string> words) {
  std::vector<std::string> result;
  for (std::string& word : words) {
    const bool empty_value = word.size() > 3 && word.starts_with("--") && word.back() == '=' &&
                             word.find('=') == word.size() - 1;
    if (empty_value) word.pop_back();
    result.push_back(std::move(word));
    if (empty_value) result.emplace_back();
  }
  return result;
}

/// CLI11's help with our usage line.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return fmt::format("Usage: {} [flags]\n", name);
  }
};

void declare(CLI::App& app, const Flag& flag, std::string_view group) {
  const std::string name = fmt::format("--{}", flag.name);
  const std::string help(flag.help);
  CLI::Option* option =
      flag.kind == Flag::Kind::presence ? app.add_flag(name) : app.add_option(name)->expected(1);
  option->description(help);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (flag.kind != Flag::Kind::presence) option->type_name(std::string(flag.value));
  option->group(std::string(group));
}

void declare_all(CLI::App& app, const Command& command) {
  const std::string common = "Every command";
  app.set_help_flag("-h,--help", "Print this text")->group(common);
  app.add_flag("--version")->description("Print the version")->group(common);
  app.add_flag("--json")->description("Print one JSON document, no text")->group(common);
  for (const FlagGroup& group : command.groups) {
    for (const Flag& flag : group.flags) declare(app, flag, group.title);
  }
}

/// What CLI11 left over: arguments that are no flags (after "--", whatever they look like). Unknown
/// flags are named in one message.
std::vector<std::string> positionals_of(const Command& command,
                                        const std::vector<std::string>& left_over) {
  std::vector<std::string> positionals;
  std::vector<std::string> messages;
  bool flags_end = false;
  for (const std::string& word : left_over) {
    if (!flags_end && word == "--") {
      flags_end = true;
      continue;
    }
    if (flags_end || word.size() < 2 || word.front() != '-') {
      positionals.push_back(word);
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> dashed;
    for (std::string_view known : command.flag_names())
      dashed.push_back(fmt::format("--{}", known));
    const std::vector<std::string_view> names(dashed.begin(), dashed.end());
    messages.push_back(fmt::format("unknown flag '{}' for 'unlatch {}'.{}", name, command.name,
                                   suggest(name, names)));
  }
  require(messages.empty(), "{}\n  'unlatch {} --help' lists its flags",
          fmt::join(messages, "\n  "), command.name);
  return positionals;
}

void collect(const CLI::App& app, const Command& command, Arguments& arguments) {
  for (std::string_view name : command.flag_names()) {
    const std::string dashed = fmt::format("--{}", name);
    const CLI::Option* option = app.get_option(dashed);
    if (option->count() == 0) continue;
    const Flag* flag = command.find(name);
    const auto values = option->results();
    const bool presence = flag == nullptr || flag->kind == Flag::Kind::presence;
    const bool single = flag != nullptr && flag->kind == Flag::Kind::single;
    require(!single || values.size() == 1, "{} is given {} times ('{}'), but it takes one value",
            dashed, values.size(), fmt::join(values, "', '"));
    if (presence) {
      const auto wrong = std::ranges::find_if(values, [](const auto& v) { return v != "true"; });
      require(wrong == values.end(), "{} takes no value, but '{}' was given", dashed,
              wrong == values.end() ? "" : *wrong);
    }
    arguments.add(std::string(name), {values, dashed});
  }
}

void take_positionals(std::vector<std::string> words, const Command& command,
                      Arguments& arguments) {
  const std::size_t wanted = command.positionals.size();
  if (command.reads_scenario && !words.empty() && words.front().ends_with(".json") &&
      !words.front().starts_with("file:")) {
    add_scenario(command, words.front(), arguments);
    arguments.set_scenario(words.front());
    words.erase(words.begin());
  }
  if (words.size() > wanted) {
    fail(
        "'unlatch {}' takes no argument '{}'{}; flags begin with --, a scenario file is named "
        "first and ends in .json",
        command.name, words[wanted], wanted == 0 ? "" : " beyond those of its usage");
  }
  for (std::string& word : words) arguments.add_positional(std::move(word));
}

}  // namespace

const Flag* Command::find(std::string_view flag) const {
  for (const FlagGroup& group : groups) {
    const auto found = std::ranges::find(group.flags, flag, &Flag::name);
    if (found != group.flags.end()) return &*found;
  }
  return nullptr;
}

std::vector<std::string_view> Command::flag_names() const {
  std::vector<std::string_view> names{"json", "help", "version"};
  for (const FlagGroup& group : groups) {
    for (const Flag& flag : group.flags) names.push_back(flag.name);
  }
  return names;
}

Arguments parse_options(const Command& command, std::vector<std::string> words) {
  CLI::App app;
  declare_all(app, command);
  app.allow_extras();
  Arguments arguments;
  try {
    words = with_empty_values(std::move(words));
    std::reverse(words.begin(), words.end());  // CLI11 takes its words from the back
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    arguments.add("help", {{"true"}, "--help"});
    return arguments;
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // Its text begins with the option's name.
    const std::string text = mismatch.what();
    fail("{} needs a value; see 'unlatch {} --help'", text.substr(0, text.find(':')), command.name);
  } catch (const CLI::ParseError& error) {
    fail("'unlatch {}': {}", command.name, error.what());
  }
  std::vector<std::string> positionals = positionals_of(command, app.remaining());
  collect(app, command, arguments);
  take_positionals(std::move(positionals), command, arguments);
  return arguments;
}

std::string help_text(const Command& command) {
  CLI::App app{std::string(command.summary)};
  declare_all(app, command);
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(38);
  app.formatter(formatter);
  std::string usage = fmt::format("unlatch {}", command.name);
  if (command.reads_scenario) usage += " [FILE.json]";
  for (std::string_view positional : command.positionals) usage += fmt::format(" {}", positional);
  std::string text = app.help(usage);
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

}  // namespace unlatch::tools
