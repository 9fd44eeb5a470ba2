#include <etna/train/settings.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace etna::training {
namespace {

template <typename Number>
Number number_within(const char* name, const char* kind, const std::string& text, Number least, Number most) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= least && value <= most))
    throw SettingError(fmt::format("{} is '{}'; it should be {} from {} to {}", name, text, kind, least, most));
  return value;
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// The value at the beginning of a text, and what follows it. A string is in quotes, "double" ones with escapes.
std::pair<std::string, std::string_view> value_and_rest(std::string_view text) {
  if (text.empty() || (text[0] != '"' && text[0] != '\'')) {
    const std::size_t end = std::min(text.find_first_of(" \t#"), text.size());
    return {std::string(text.substr(0, end)), text.substr(end)};
  }
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == text[0]) return {value, text.substr(i + 1)};
    if (text[i] == '\\' && text[0] == '"' && i + 1 < text.size()) ++i;
    value.push_back(text[i]);
  }
  return {"", text};  // the quote does not end
}

/// The pairs of a TOML text, in order. Lists and sections are no settings.
std::vector<std::pair<std::string, std::string>> toml_pairs(std::string_view toml, const std::string& source) {
  std::vector<std::pair<std::string, std::string>> all;
  while (!toml.empty()) {
    const std::size_t end = toml.find('\n');
    const std::string_view line = trimmed(toml.substr(0, end));
    toml.remove_prefix(end == std::string_view::npos ? toml.size() : end + 1);
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string_view name = trimmed(line.substr(0, equals));
    const auto [value, rest] = value_and_rest(equals < line.size() ? trimmed(line.substr(equals + 1)) : "[");
    const std::string_view after = trimmed(rest);
    if (value.starts_with('[') || (!after.empty() && after[0] != '#'))
      throw SettingError(fmt::format("{}: '{}' should be a name and one value, as in `lr = 1e-3`", source, name));
    all.emplace_back(name, value);
  }
  return all;
}

}  // namespace

struct SettingList::Setting {
  std::string name, help;
  std::function<nlohmann::json(const std::string&)> parse;  ///< throws SettingError
  std::function<void(const nlohmann::json&)> assign;
  std::function<nlohmann::json()> get;
  nlohmann::json otherwise = get();  ///< the default
  std::string source = {};           ///< empty: the default

  /// @param from "preset tiny", before errors; may be empty
  nlohmann::json parsed(const std::string& text, const std::string& from) const {
    try {
      return parse(text);
    } catch (const SettingError& error) {
      if (from.empty()) throw;
      throw SettingError(fmt::format("{}: {}", from, error.what()));
    }
  }
};

struct SettingList::State {
  std::vector<Setting> settings;
  std::vector<std::vector<std::string>> together;

  Setting& find(std::string_view name, const std::string& source) {
    std::vector<std::string> names;
    for (Setting& setting : settings) {
      if (setting.name == name) return setting;
      names.push_back(setting.name);
    }
    throw SettingError(fmt::format("{}: '{}' is no setting; there are {}", source, name, fmt::join(names, ", ")));
  }

  /// Settings that go with one that is set.
  std::vector<std::string> settled() {
    std::vector<std::string> all;
    for (const std::vector<std::string>& names : together) {
      const bool set = std::any_of(names.begin(), names.end(),
                                   [&](const std::string& name) { return !find(name, "together").source.empty(); });
      if (set) all.insert(all.end(), names.begin(), names.end());
    }
    return all;
  }

  template <typename T>
  void add(const char* name, T& value, const char* help, std::function<nlohmann::json(const std::string&)> parse) {
    settings.push_back({name, help, std::move(parse), [&value](const nlohmann::json& given) { value = given.get<T>(); },
                        [&value] { return nlohmann::json(value); }});
  }
};

SettingList::SettingList() : state_(std::make_unique<State>()) {}
SettingList::~SettingList() = default;

void SettingList::integer(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most,
                          const char* help) {
  state_->add(name, value, help,
              [=](const std::string& text) { return number_within(name, "an integer", text, least, most); });
}

void SettingList::real(const char* name, double& value, double least, double most, const char* help) {
  state_->add(name, value, help,
              [=](const std::string& text) { return number_within(name, "a number", text, least, most); });
}

void SettingList::choice(const char* name, std::string& value, std::vector<std::string> among, const char* help) {
  state_->add(name, value, help, [name, among = std::move(among)](const std::string& text) {
    if (std::find(among.begin(), among.end(), text) == among.end())
      throw SettingError(fmt::format("{} is '{}'; it should be one of {}", name, text, fmt::join(among, ", ")));
    return text;
  });
}

void SettingList::text(const char* name, std::string& value, const char* help) {
  state_->add(name, value, help, [name](const std::string& given) {
    if (given.find_first_of("\n\r") != std::string::npos)
      throw SettingError(fmt::format("{} has more than one line; it should be a text on one", name));
    return given;
  });
}

void SettingList::together(std::vector<std::string> names) { state_->together.push_back(std::move(names)); }

std::vector<std::pair<std::string, std::string>> SettingList::described() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Setting& setting : state_->settings) all.emplace_back(setting.name, setting.help);
  return all;
}

void SettingList::set(std::string_view name, const std::string& text, const std::string& source) {
  Setting& setting = state_->find(name, source);
  setting.assign(setting.parsed(text, ""));
  setting.source = source;
}

void SettingList::read_environment(const std::string& prefix) {
  for (Setting& setting : state_->settings) {
    std::string variable = prefix + setting.name;
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || !setting.source.empty()) continue;
    setting.assign(setting.parsed(value, variable));
    setting.source = variable;
  }
}

void SettingList::read(std::string_view toml, const std::string& source) {
  const std::vector<std::string> settled = state_->settled();
  for (const auto& [name, text] : toml_pairs(toml, source)) {
    Setting& setting = state_->find(name, source);
    if (!setting.source.empty() || std::find(settled.begin(), settled.end(), name) != settled.end()) continue;
    setting.assign(setting.parsed(text, source));
    setting.source = source;
  }
}

void SettingList::resume(std::string_view saved, const std::vector<std::string>& may_change,
                         const std::string& folder) {
  constexpr const char* kSource = "the run";
  std::map<std::string, nlohmann::json> of_run;
  for (const auto& [name, text] : toml_pairs(saved, kSource))
    of_run.emplace(name, state_->find(name, kSource).parsed(text, kSource));
  for (const Setting& setting : state_->settings) {
    const auto there = of_run.find(setting.name);
    const bool differs = setting.get() != (there == of_run.end() ? setting.otherwise : there->second);
    if (setting.source.empty() || !differs) continue;
    if (std::find(may_change.begin(), may_change.end(), setting.name) == may_change.end())
      throw SettingError(fmt::format("{} is another one in {}; a resumed run keeps it", setting.name, folder));
  }
  read(saved, kSource);
}

std::string SettingList::toml() const {
  std::string text;
  for (const Setting& setting : state_->settings) {
    // Numbers and strings are written alike in JSON and TOML.
    text += fmt::format("{:<28}  # {}\n", fmt::format("{} = {}", setting.name, setting.get().dump()),
                        setting.source.empty() ? "default" : setting.source);
  }
  return text;
}

std::string SettingList::json() const {
  nlohmann::json all = nlohmann::json::object();
  for (const Setting& setting : state_->settings) all[setting.name] = setting.get();
  return all.dump();
}

}  // namespace etna::training
