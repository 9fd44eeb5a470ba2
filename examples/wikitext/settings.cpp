#include "settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>

#include "embedded_presets.h"

namespace wikitext {
namespace {

template <typename T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

/// The pairs of a TOML file, in order. Lists and sections are no values of ours.
std::vector<std::pair<std::string, std::string>> pairs(std::string_view toml, const std::string& source) {
  std::istringstream in{std::string(toml)};
  std::vector<std::pair<std::string, std::string>> all;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(in)) {
      if (!item.parents.empty() || item.inputs.size() != 1)
        throw SettingError(
            fmt::format("{}: '{}' should be a name and one value, as in `lr = 1e-3`", source, item.name));
      all.emplace_back(item.name, item.inputs.front());
    }
  } catch (const CLI::Error& error) {
    throw SettingError(fmt::format("{}: {}", source, error.what()));
  }
  return all;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string option_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

}  // namespace

SettingList::SettingList(Settings& s) : values_(s) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  choice("model", s.model, {"transformer", "llama", "lstm"},
         "a transformer like GPT-2 or like Llama, or LSTMs whose state goes on from batch to batch");
  integer("layers", s.layers, 1, 1000, "transformer blocks or LSTMs");
  integer("heads", s.heads, 1, 1024, "transformer: attention heads; they divide dim");
  integer("dim", s.dim, 1, 65536, "width of the model; lstm: of the embedded words and the last layer");
  integer("ffn", s.ffn, 1, 1 << 20, "transformer: width of the feed-forward layers");
  integer("hidden", s.hidden, 1, 65536, "lstm: width of the layers but the last");
  integer("seq", s.seq, 1, 1 << 17, "tokens of a sequence, and of a transformer's context");
  integer("seq_spread", s.seq_spread, 0, 1 << 16,
          "lstm: sequences are longer or shorter by up to this, a multiple of 8");
  integer("vocab", s.vocab, 0, 1 << 24, "entries of the vocabulary at least; 0: the corpus's words");
  real("dropout", s.dropout, 0, 0.95, "share of activations that are zeroed; lstm: behind the last layer");
  real("dropout_embedding", s.dropout_embedding, 0, 0.95, "lstm: share of words that are zeroed");
  real("dropout_input", s.dropout_input, 0, 0.95, "lstm: of the embedded words");
  real("dropout_hidden", s.dropout_hidden, 0, 0.95, "lstm: between layers");
  real("weight_drop", s.weight_drop, 0, 0.95, "lstm: of the weights from step to step");
  real("activation", s.activation, 0, 1e6, "lstm: weight of the mean square of the output in the loss");
  real("slowness", s.slowness, 0, 1e6, "lstm: weight of the mean square of the output's change in the loss");
  integer("batch", s.batch, 1, 1 << 16, "sequences a batch");
  integer("accumulation", s.accumulation, 1, 256, "batches whose gradients make one step");
  integer("epochs", s.epochs, 0, kMany, "passes over the training text; the learning rate's schedule spans them");
  integer("steps", s.steps, 0, kMany, "stop after so many steps (without epochs the schedule spans these)");
  choice("schedule", s.schedule, {"cosine", "linear", "constant"}, "course of the learning rate after the warm-up");
  real("lr", s.lr, 0, 1e6, "peak learning rate");
  real("lr_floor", s.lr_floor, 0, 1, "share of the peak that the schedule ends at");
  integer("warmup", s.warmup, 0, kMany, "steps in which the rate rises to its peak");
  real("weight_decay", s.weight_decay, 0, 100, "of matrices; biases and norms have none");
  real("beta1", s.beta1, 0, 0.999999, "AdamW's average of gradients");
  real("beta2", s.beta2, 0, 0.999999, "AdamW's average of squares");
  real("eps", s.eps, 0, 1, "AdamW's addend to the root");
  real("clip", s.clip, 0, 1e6, "largest norm of the gradients; 0: any");
  choice("precision", s.precision, {"f32", "f16", "bf16"},
         "what products compute in: f32, f16 (training scales its loss) or bf16");
  choice("recompute", s.recompute, {"none", "blocks"},
         "transformer: activations that training does not keep but computes again, for less memory");
  integer("seed", s.seed, 0, std::int64_t{1} << 53, "of the weights and the dropout");
  integer("eval_every", s.eval_every, 0, kMany, "steps between validations; 0: at the end of each epoch");
  integer("patience", s.patience, 0, kMany, "validations without a better loss before the run ends; 0: any number");
  integer("keep", s.keep, 1, 1000, "newest checkpoints to keep");
  real("checkpoint_seconds", s.checkpoint_seconds, 0, 1e9, "between checkpoints");
}

void SettingList::integer(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most,
                          const char* help) {
  auto set = [=, &value](const std::string& text) {
    std::int64_t number = 0;
    if (!parse(text, number) || number < least || number > most)
      throw SettingError(fmt::format("{} is '{}'; it should be an integer from {} to {}", name, text, least, most));
    value = number;
  };
  settings_.push_back({name, help, set, [&value] { return nlohmann::json(value); }});
}

void SettingList::real(const char* name, double& value, double least, double most, const char* help) {
  auto set = [=, &value](const std::string& text) {
    double number = 0;
    if (!parse(text, number) || !(number >= least && number <= most))
      throw SettingError(fmt::format("{} is '{}'; it should be a number from {} to {}", name, text, least, most));
    value = number;
  };
  settings_.push_back({name, help, set, [&value] { return nlohmann::json(value); }});
}

void SettingList::choice(const char* name, std::string& value, std::vector<std::string> among, const char* help) {
  auto set = [name, among = std::move(among), &value](const std::string& text) {
    if (std::find(among.begin(), among.end(), text) == among.end())
      throw SettingError(fmt::format("{} is '{}'; it should be one of {}", name, text, fmt::join(among, ", ")));
    value = text;
  };
  settings_.push_back({name, help, set, [&value] { return nlohmann::json(value); }});
}

SettingList::Setting& SettingList::find(std::string_view name, const std::string& source) {
  for (Setting& setting : settings_) {
    if (setting.name == name) return setting;
  }
  std::vector<std::string> names;
  for (const Setting& setting : settings_) names.push_back(setting.name);
  throw SettingError(fmt::format("{}: '{}' is no setting; there are {}", source, name, fmt::join(names, ", ")));
}

void SettingList::add_options(CLI::App& app, const std::vector<std::string>& only) {
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    if (!only.empty() && std::find(only.begin(), only.end(), settings_[i].name) == only.end()) continue;
    auto given = [this, i](const std::string& text) {
      Setting& setting = settings_[i];
      try {
        setting.set(text);
      } catch (const SettingError& error) {
        throw CLI::ValidationError(error.what());
      }
      setting.source = option_name(setting.name);
    };
    const std::string name = option_name(settings_[i].name) + (settings_[i].name == "model" ? ",--arch" : "");
    app.add_option_function<std::string>(name, given, settings_[i].help)->group("Settings");
  }
}

void SettingList::read_environment() {
  for (Setting& setting : settings_) {
    const std::string variable = "ETNA_WIKITEXT_" + upper(setting.name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || !setting.source.empty()) continue;
    try {
      setting.set(value);
    } catch (const SettingError& error) {
      throw SettingError(fmt::format("{}: {}", variable, error.what()));
    }
    setting.source = variable;
  }
}

void SettingList::read(std::string_view toml, const std::string& source) {
  // Whoever gives the length of a run gives all of it.
  const bool has_length = !find("epochs", source).source.empty() || !find("steps", source).source.empty();
  for (const auto& [name, value] : pairs(toml, source)) {
    Setting& setting = find(name, source);
    if (!setting.source.empty() || (has_length && (name == "epochs" || name == "steps"))) continue;
    try {
      setting.set(value);
    } catch (const SettingError& error) {
      throw SettingError(fmt::format("{}: {}", source, error.what()));
    }
    setting.source = source;
  }
}

void SettingList::check() const {
  const bool lstm = values_.model == "lstm";
  if (!lstm && values_.dim % values_.heads != 0)
    throw SettingError(fmt::format("heads is {} and dim {}; the heads must divide dim", values_.heads, values_.dim));
  if (values_.seq_spread % 8 != 0 || values_.seq_spread >= values_.seq) {
    throw SettingError(fmt::format("seq_spread is {} and seq {}; it should be a multiple of 8 below seq",
                                   values_.seq_spread, values_.seq));
  }
  if (values_.seq_spread > 0 && (!lstm || values_.accumulation > 1))
    throw SettingError("seq_spread goes with model = \"lstm\" and accumulation = 1 only");
  if (values_.model == "llama" && (values_.dropout > 0 || values_.dim / values_.heads % 2 != 0))
    throw SettingError("model = \"llama\" has no dropout, and its heads an even size; set dropout = 0 and another dim");
  if (values_.model != "transformer" && values_.recompute != "none")
    throw SettingError("recompute goes with model = \"transformer\" only");
  if (values_.lr == 0) throw SettingError("lr is 0; nothing would be learned");
}

std::string SettingList::toml() const {
  std::string text;
  for (const Setting& setting : settings_) {
    // Numbers and strings are written alike in JSON and TOML.
    const std::string value = setting.get().dump();
    text += fmt::format("{:<28}  # {}\n", fmt::format("{} = {}", setting.name, value),
                        setting.source.empty() ? "default" : setting.source);
  }
  return text;
}

nlohmann::json SettingList::json() const {
  nlohmann::json all;
  for (const Setting& setting : settings_) all[setting.name] = setting.get();
  return all;
}

const std::string& SettingList::source(std::string_view name) const {
  return std::find_if(settings_.begin(), settings_.end(), [&](const Setting& s) { return s.name == name; })->source;
}

std::vector<std::string> SettingList::differences(std::string_view toml) const {
  Settings other;
  SettingList list(other);
  list.read(toml, "the run");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    if (!settings_[i].source.empty() && settings_[i].get() != list.settings_[i].get())
      names.push_back(settings_[i].name);
  }
  return names;
}

std::string preset_text(const std::string& name) {
  std::vector<std::string> names;
  for (const EmbeddedPreset& preset : kEmbeddedPresets) {
    if (preset.name == name) return std::string(preset.text);
    names.emplace_back(preset.name);
  }
  if (name.ends_with(".toml")) return etna::data::read_text_file(name);
  throw SettingError(
      fmt::format("preset '{}' is none of {}, and no file that ends in .toml", name, fmt::join(names, ", ")));
}

}  // namespace wikitext
