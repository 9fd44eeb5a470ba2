#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/error.h>

/// What `etna doctor --bench` measures, and how it is told.
namespace etna::cli {

/// How long to measure. Quick: counts and sizes cut to what shows that it works, its figures mean little.
struct Effort {
  bool quick = false;
  double seconds = 0.02;  ///< of work between two waits
  int repeats = 5;        ///< of which the median counts
};

struct Figure {
  std::string key;                   ///< in the JSON
  std::string label;                 ///< in the table
  std::string unit;                  ///< us, GB/s ...
  std::string meaning = {};          ///< one line, where the label does not say it
  std::optional<double> value = {};  /// none where it was left out or failed
  std::string note = {};             ///< of what size; or why there is no value
};

struct Measured {
  double value;
  std::string note = {};
};

/// Thrown by a measurement that does not apply: its line says why.
struct LeftOut : Error {
  using Error::Error;
};

/// One device's figures, in the order in which they were taken.
class Sheet {
 public:
  Sheet(AdapterInfo adapter, Effort effort);

  const AdapterInfo& adapter() const { return adapter_; }
  Device device() const { return adapter_.device; }
  const Effort& effort() const { return effort_; }
  bool software() const { return adapter_.kind == "software"; }
  const std::vector<std::string>& conditions() const { return conditions_; }
  const std::vector<Figure>& figures() const { return figures_; }
  bool failed() const { return failed_; }

  /// Adds a line; `measure` gives its value. What does not fit in memory or is LeftOut becomes a line that says so, as
  /// does any other error of Etna's, which also makes the sheet failed(). @throws DeviceLost, after which nothing can
  /// be measured
  void add(Figure figure, const std::function<Measured()>& measure);

 private:
  AdapterInfo adapter_;
  Effort effort_;
  std::vector<std::string> conditions_;  ///< what makes the figures other than usual: validation layers ...
  std::vector<Figure> figures_;
  bool failed_ = false;
};

void bench_dispatches(Sheet& sheet);  ///< GPU: recording, dispatching, submitting
void bench_replays(Sheet& sheet);     ///< GPU: captured steps
void bench_memory(Sheet& sheet);      ///< GPU: copies, transfers, allocation
void bench_processor(Sheet& sheet);   ///< CPU: eager ops, copies, threads
void bench_gemm(Sheet& sheet);        ///< both: GEMM

/// The middle of several; 0 of none.
double median(std::vector<double> values);

/// Seconds a call of `work`, which may queue instead of waiting: the median of `effort.repeats` runs, each of so many
/// calls that they take about `effort.seconds` and the one wait at their end does not show.
double seconds_a_call(Device device, const Effort& effort, const std::function<void()>& work);

/// A block of aligned lines.
std::string table(const Sheet& sheet);
/// What the labels mean, each once, for all sheets.
std::string legend(const std::vector<Sheet>& sheets);
/// All of it as JSON.
std::string json(const std::vector<Sheet>& sheets);

}  // namespace etna::cli
