#include "arguments.h"

#include <fmt/format.h>

#include <etna/train/progress.h>
#include <etna/train/settings.h>

namespace etna::cli {

CLI::Validator number_in(const training::NumberRange& range) {
  return {[range](std::string& text) { return range.refuse(text); }, "(" + range.str() + ")", ""};
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

namespace {

/// "etna runs compare"
std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? "etna" : full_name(*app.get_parent()) + " " + app.get_name();
}

}  // namespace

std::string unknown_argument(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {  // those that were given
    if (std::string sentence = unknown_argument(*command); !sentence.empty()) return sentence;
  }
  const std::string of = full_name(app);
  for (const std::string& argument : app.remaining()) {
    const bool option = argument.size() > 1 && argument[0] == '-';
    const std::vector<const CLI::App*> commands = commands_of(app);
    std::vector<std::string> names;
    if (option) {
      for (const CLI::Option* one : options_of(app))
        for (std::string& name : names_of(*one)) names.push_back(std::move(name));
    } else {
      for (const CLI::App* one : commands) names.push_back(one->get_name());
    }
    const std::string typed = option ? argument.substr(0, argument.find('=')) : argument;
    const std::string nearest = training::nearest_name(typed, names);
    const char* what = option ? "option" : commands.empty() ? "room for the argument" : "command";
    return fmt::format("{} has no {} '{}'; {}", of, what, training::shortened(typed, 60),
                       nearest.empty() ? of + " --help lists what it takes" : fmt::format("did you mean {}?", nearest));
  }
  return "";
}

}  // namespace etna::cli
