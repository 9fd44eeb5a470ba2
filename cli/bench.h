#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/error.h>

/// What `etna doctor --bench` measures, and how it is printed.
namespace etna::cli {

/// How long to measure. Quick: reduced counts and sizes, to show that everything works; the figures mean little.
struct Effort {
  bool quick = false;
  double seconds = 0.02;  ///< of work between two waits
  int repeats = 5;        ///< the result is their median
};

struct Figure {
  std::string key;                   ///< in the JSON
  std::string label;                 ///< in the table
  std::string unit;                  ///< us, GB/s ...
  std::string meaning = {};          ///< one line, if the label needs explaining
  std::optional<double> value = {};  /// none where it was left out or failed
  std::string note = {};             ///< the size measured, or why there is no value
};

struct Measured {
  double value;
  std::string note = {};
};

/// Thrown by a measurement that does not apply; its line in the sheet says why.
struct LeftOut : Error {
  using Error::Error;
};

/// One device's figures, in the order in which they were measured.
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

  /// Adds a line with the value of `measure`. If the measurement runs out of memory or throws LeftOut, the line says
  /// so. So does any other error of Etna's, which also marks the sheet as failed(). @throws DeviceLost, after which
  /// nothing can be measured
  void add(Figure figure, const std::function<Measured()>& measure);

 private:
  AdapterInfo adapter_;
  Effort effort_;
  std::vector<std::string> conditions_;  ///< what makes the figures unusual: validation layers ...
  std::vector<Figure> figures_;
  bool failed_ = false;
};

void bench_dispatches(Sheet& sheet);  ///< GPU: queueing, dispatching, submitting
void bench_replays(Sheet& sheet);     ///< GPU: captured steps
void bench_memory(Sheet& sheet);      ///< GPU: copies, transfers, allocation
void bench_processor(Sheet& sheet);   ///< CPU: eager ops, copies, threads
void bench_gemm(Sheet& sheet);        ///< both: GEMM

/// The median of several values; 0 for none.
double median(std::vector<double> values);

/// Seconds per call of `work`, which may queue its work: the median of `effort.repeats` runs. Each run makes enough
/// calls to take about `effort.seconds`, so that the single wait at its end does not count.
double seconds_a_call(Device device, const Effort& effort, const std::function<void()>& work);

/// A block of aligned lines.
std::string table(const Sheet& sheet);
/// Explains each label once, for all sheets.
std::string legend(const std::vector<Sheet>& sheets);
inline constexpr const char* kDoctorBench = "etna doctor --bench";
/// All sheets as JSON.
std::string json(const std::vector<Sheet>& sheets);

}  // namespace etna::cli
