#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "arguments.h"
#include "commands.h"
#include "output.h"

// The command line as other programs read it, from the same table as --help.
namespace etna::cli {
namespace {

using Visit = std::function<void(const std::string& path, const CLI::App& app)>;

/// The program and all its commands: "", " runs", " runs compare".
void for_each_command(const CLI::App& app, const Visit& visit, const std::string& path = "") {
  visit(path, app);
  for (const CLI::App* command : commands_of(app)) for_each_command(*command, visit, path + " " + command->get_name());
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// The value's name in "--temperature NUMBER".
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT") ? "NUMBER" : "TEXT";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string bash(const CLI::App& app) {
  std::string paths, words;
  for_each_command(app, [&](const std::string& path, const CLI::App& command) {
    std::vector<std::string> all;
    for (const CLI::App* below : commands_of(command)) all.push_back(below->get_name());
    for (const CLI::Option* option : options_of(command))
      for (const std::string& name : names_of(*option)) all.push_back(name);
    if (!path.empty()) paths += (paths.empty() ? "\"" : " | \"") + path + "\"";
    words += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, joined(all, " "));
  });
  return fmt::format(
      "_etna() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} path= word words=\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case \"$path $word\" in\n"
      "      {}) path=\"$path $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n{}  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -o bashdefault -o default -F _etna etna\n",
      paths, words);
}

std::string quoted_for_fish(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "'";
}

std::string fish(const CLI::App& app) {
  std::string text;
  for_each_command(app, [&](const std::string& path, const CLI::App& command) {
    std::string where = path.empty() ? "__fish_use_subcommand" : "";
    for (std::size_t at = 0; at < path.size();) {
      const std::size_t end = std::min(path.find(' ', at + 1), path.size());
      where += (where.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from" + path.substr(at, end - at));
      at = end;
    }
    const std::string line = fmt::format("complete -c etna -n {} ", quoted_for_fish(where));
    for (const CLI::App* below : commands_of(command))
      text += fmt::format("{}-a {} -d {}\n", line, below->get_name(), quoted_for_fish(below->get_description()));
    for (const CLI::Option* option : options_of(command)) {
      std::string names;
      for (const std::string& name : option->get_lnames()) names += "-l " + name + " ";
      for (const std::string& name : option->get_snames()) names += "-s " + name + " ";
      if (names.empty()) continue;
      text += fmt::format("{}{}{}-d {}\n", line, names, takes_value(*option) ? "-r " : "",
                          quoted_for_fish(option->get_description()));
    }
  });
  return text;
}

/// Text for troff: no character of it is a command.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

/// @param shell "bash", "zsh" or "fish"
std::string completion(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return fish(app);
  if (shell == "bash") return bash(app);
  return "#compdef etna\nautoload -Uz bashcompinit && bashcompinit\n" + bash(app);
}

/// A page for man, with all commands.
std::string man_page(const CLI::App& app) {
  std::string text =
      ".TH ETNA 1\n.SH NAME\netna \\- language models and training\n.SH SYNOPSIS\n.B etna\nCOMMAND "
      "[OPTIONS]\n.SH DESCRIPTION\n" +
      plain(app.get_description()) + "\n";
  for_each_command(app, [&](const std::string& path, const CLI::App& command) {
    if (path.empty()) {
      text += ".SH OPTIONS\n";
    } else {
      text += fmt::format("{} \"etna{}\"\n{}\n", path.find(' ', 1) == std::string::npos ? ".SH" : ".SS", plain(path),
                          plain(command.get_description()));
    }
    for (const CLI::Option* option : options_of(command)) {
      std::vector<std::string> names = names_of(*option);
      if (!option->get_positional()) {
        text += fmt::format(".TP\n.B {}\n",
                            plain(joined(names, ", ") + (takes_value(*option) ? " " + value_name(*option) : "")));
      } else {
        names.insert(names.begin(), option->get_name(true));
        text += fmt::format(".TP\n.B {}\n", plain(joined(names, ", ")));
      }
      text += plain(option->get_description()) + "\n";
    }
    if (const std::string footer = command.get_footer(); !footer.empty()) text += ".PP\n" + plain(footer) + "\n";
  });
  return text;
}

}  // namespace

Command add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print what a shell completes etna's words by: source <(etna completion bash)");
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return {command, [&app, shell] { return print_all(completion(app, *shell)), 0; }};
}

Command add_man(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page: etna man | man -l -");
  return {command, [&app] { return print_all(man_page(app)), 0; }};
}

}  // namespace etna::cli
