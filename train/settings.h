#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/error.h>
#include <etna/device/owned.h>

namespace etna::optim {
class Schedule;
}  // namespace etna::optim

namespace etna::training {

/// A setting that is no number, out of range, unknown, or does not go with another.
struct SettingError : Error {
  using Error::Error;
};

/// The numbers and choices of a training run by name. Sources are read in the order of their rank, and a setting keeps
/// the first value that it gets: command line, environment, file, preset.
///     struct { double lr = 1e-3; std::int64_t batch = 16; } mine;
///     training::SettingList list;
///     list.real("lr", mine.lr, 0, 1, "peak learning rate");
///     list.integer("batch", mine.batch, 1, 65536, "sequences a batch");
///     list.set("lr", "3e-4", "--lr");
///     list.read_environment("MY_PROGRAM_");  // MY_PROGRAM_BATCH=8
///     folder.write("config.toml", list.toml());
class SettingList {
 public:
  SettingList();
  ~SettingList();
  SettingList(const SettingList&) = delete;
  SettingList& operator=(const SettingList&) = delete;

  /// Adds a setting. @param value outlives the list; what it holds now is the default
  void integer(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* help);
  void real(const char* name, double& value, double least, double most, const char* help);
  void choice(const char* name, std::string& value, std::vector<std::string> among, const char* help);
  /// Any text on one line.
  void text(const char* name, std::string& value, const char* help);
  /// A source that gives one of these gives all of them: sources behind it are not asked.
  void together(std::vector<std::string> names);

  /// Names and what --help says of them, in the order in which they were added.
  std::vector<std::pair<std::string, std::string>> described() const;
  /// @param source for toml() @throws SettingError here and below, in words
  void set(std::string_view name, const std::string& text, const std::string& source);
  /// The variable of lr_floor is <prefix>LR_FLOOR.
  void read_environment(const std::string& prefix);
  /// For settings that no earlier call has set. @param toml lines of `name = value` @param source for errors and toml()
  void read(std::string_view toml, const std::string& source);
  /// As read(), of a run that goes on: a setting that was set to another value than the run has is refused.
  /// @param may_change those that are not @param folder of the run, for errors
  void resume(std::string_view saved, const std::vector<std::string>& may_change, const std::string& folder);

  /// A line each: value, and where it came from. It is a file of settings itself.
  std::string toml() const;
  /// An object.
  std::string json() const;

 private:
  struct Setting;
  struct State;
  Owned<State> state_;
};

/// The numbers of a training recipe, with AdamW and one cycle of the learning rate.
struct Recipe {
  std::int64_t batch = 16, accumulation = 1, epochs = 0, steps = 0;
  std::string schedule = "cosine";
  double lr = 1e-3, lr_floor = 0.1;
  std::int64_t warmup = 100;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, clip = 1;
  std::string precision = "f32", recompute = "none";
  std::int64_t seed = 1, eval_every = 0, patience = 0, keep = 2;
  double checkpoint_seconds = 30;

  /// Adds all of it, by these names. The recipe outlives the list.
  void add_to(SettingList& list);
  /// Those that a resumed run may be given anew: they do not change what a step computes.
  static std::vector<std::string> may_change();
  /// Steps that the schedule spans.
  std::int64_t planned_steps(std::int64_t steps_per_epoch) const;
  optim::Schedule course(std::int64_t planned) const;
};

/// The numbers that an option takes, in words.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool integer = false;
  bool above = false;  ///< `least` itself is refused

  /// "an integer of 1 or more", "a number from 0 to 1", "a number above 0", "a finite number".
  std::string str() const;
  /// "'-3' should be an integer of 1 or more"; empty for text that is one of the numbers. NaN and infinity are none.
  std::string refuse(const std::string& text) const;
};

/// Integers from `least`; without `most`, as large as any.
inline NumberRange integers(double least, double most = std::numeric_limits<double>::infinity()) {
  return {.least = least, .most = most, .integer = true};
}

/// The name that a mistyped one means: the one that fewest insertions, deletions, substitutions and swaps of neighbours
/// make of it, at most one in three characters. Empty where none is that near.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace etna::training
