#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>

namespace wikitext {

/// A setting that is no number, out of range, unknown, or does not go with another.
struct SettingError : etna::Error {
  using Error::Error;
};

/// Every number and choice of a training run.
struct Settings {
  std::string model = "transformer";
  std::int64_t layers = 2, heads = 4, dim = 128, ffn = 512, hidden = 512, seq = 64, seq_spread = 0, vocab = 0;
  double dropout = 0, dropout_embedding = 0, dropout_input = 0, dropout_hidden = 0, weight_drop = 0;
  double activation = 0, slowness = 0;
  std::int64_t batch = 16, accumulation = 1, epochs = 0, steps = 0;
  std::string schedule = "cosine";
  double lr = 1e-3, lr_floor = 0.1;
  std::int64_t warmup = 100;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, clip = 1;
  std::string precision = "f32", recompute = "none";
  std::int64_t seed = 1, eval_every = 0, patience = 0, keep = 2;
  double checkpoint_seconds = 30;
};

/// Settings by name. A value comes from the first of: the command line, the environment (ETNA_WIKITEXT_LR_FLOOR for
/// lr_floor), a file given by --config, the preset.
class SettingList {
 public:
  /// @param settings outlives the list
  explicit SettingList(Settings& settings);
  SettingList(const SettingList&) = delete;  // the command line's callbacks refer to it
  SettingList& operator=(const SettingList&) = delete;

  /// An option for each: --lr-floor for lr_floor. @param only for these; empty: for all
  void add_options(CLI::App& app, const std::vector<std::string>& only = {});
  void read_environment();
  /// Values of a TOML file, for settings that no earlier call has set. @param source for errors and str()
  /// @throws SettingError for text that is no TOML, a name that is no setting, a value out of range
  void read(std::string_view toml, const std::string& source);
  /// Sizes that only make sense together. @throws SettingError
  void check() const;

  /// As TOML, with the source of each value.
  std::string toml() const;
  nlohmann::json json() const;
  /// Where the value came from; empty for a default.
  const std::string& source(std::string_view name) const;
  /// Names of settings that the command line or the environment gives another value than the TOML text has.
  std::vector<std::string> differences(std::string_view toml) const;

 private:
  struct Setting {
    std::string name, help;
    std::function<void(const std::string&)> set;  ///< throws SettingError
    std::function<nlohmann::json()> get;
    std::string source = {};
  };
  void integer(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* help);
  void real(const char* name, double& value, double least, double most, const char* help);
  void choice(const char* name, std::string& value, std::vector<std::string> among, const char* help);
  Setting& find(std::string_view name, const std::string& source);

  std::vector<Setting> settings_;
  const Settings& values_;
};

/// The preset's TOML text. @param name one of presets/, or a path to a file @throws SettingError
std::string preset_text(const std::string& name);

}  // namespace wikitext
