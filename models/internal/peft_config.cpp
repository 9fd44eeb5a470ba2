#include <etna/models/internal/peft_config.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>
#include <etna/models/internal/parameter_adapter.h>

namespace etna::models {

PeftConfig read_peft_config(const std::filesystem::path& path, bool in_by_out) {
  const nlohmann::json config = data::parse_json_object(data::read_text_file(path), path.string());
  for (const char* key : {"r", "lora_alpha"}) {
    if (!config.contains(key) || !config[key].is_number())
      throw FormatError(fmt::format("{}: '{}' is not a number", path.string(), key));
  }
  for (const char* key : {"use_rslora", "fan_in_fan_out", "alpha_pattern"}) {
    if (!config.contains(key) || (in_by_out && std::string_view(key) == "fan_in_fan_out")) continue;
    const nlohmann::json& value = config[key];
    if (value == true || (value.is_object() && !value.empty()))
      throw FormatError(fmt::format("{}: adapters with '{}' are not supported", path.string(), key));
  }
  PeftConfig read{.alpha = config["lora_alpha"].get<double>(), .in_by_out = in_by_out};
  read.magnitudes = config.value("use_dora", nlohmann::json()) == true;
  if (const auto version = config.find("peft_version"); version != config.end() && version->is_string())
    read.version = version->get<std::string>();
  const auto add_rank = [&](const char* key, const nlohmann::json& rank) {
    if (!rank.is_number_integer() || rank.get<double>() < 1)
      throw FormatError(
          fmt::format("{}: '{}' has rank {}; wanted a positive integer", path.string(), key, rank.dump()));
    read.ranks.insert(rank.get<std::int64_t>());
  };
  add_rank("r", config["r"]);
  if (const auto pattern = config.find("rank_pattern"); pattern != config.end() && pattern->is_object())
    for (const nlohmann::json& rank : *pattern) add_rank("rank_pattern", rank);
  return read;
}

void write_peft_config(const std::filesystem::path& path, const PeftConfig& config) {
  const auto smaller = [](const auto& x, const auto& y) { return x.second < y.second; };
  const std::int64_t rank =
      std::min_element(config.rank_of_module.begin(), config.rank_of_module.end(), smaller)->second;
  nlohmann::json pattern = nlohmann::json::object();
  for (const auto& [module, own] : config.rank_of_module)
    if (own != rank) pattern[module.substr(module.find('.') + 1)] = own;  // PEFT compares suffixes of names
  nlohmann::json fields = {
      {"peft_type", "LORA"},     {"task_type", "CAUSAL_LM"},         {"r", rank},
      {"rank_pattern", pattern}, {"lora_alpha", config.alpha},       {"lora_dropout", 0.0},
      {"bias", "none"},          {"target_modules", config.targets}, {"fan_in_fan_out", config.in_by_out},
      {"inference_mode", true},  {"use_dora", config.magnitudes}};
  if (!config.parameters.empty()) {
    fields["target_parameters"] = config.parameters;
    fields["peft_version"] = kParameterVersion;
  }
  std::ofstream out(path);
  out << fields.dump(2) << "\n";
  out.close();
  if (!out) throw FormatError(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace etna::models
