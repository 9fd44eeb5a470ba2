#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <etna/tensor/op.h>

/// The walk's measurements, and the files it writes.
namespace etna::conformance {

/// Largest error per dtype; empty if nothing ran.
using Errors = std::map<DType, double>;

struct OpReport {
  std::string kind;     ///< "base", "fused", "view"
  std::string through;  ///< the op whose samples exercise it, if it has no samples itself
  Errors cpu, gpu, cpu_gradient, gpu_gradient;
  std::string differences;  ///< "1st", "1st, 2nd" or empty
  bool gpu_kernel = false;
};

class Report {
 public:
  OpReport& of(const OpDef& op);

  /// Counts a comparison, by a few words: "GPU outputs".
  void count(const std::string& kind) { ++checks_[kind]; }
  const std::map<std::string, long long>& checks() const { return checks_; }

  void write_table(const std::string& path, const std::string& gpu_name) const;

 private:
  std::map<std::string, OpReport> ops_;
  std::map<std::string, long long> checks_;
};

Report& report();

/// How the table at `path` differs from the list of existing ops: missing and extra ops, one per line; empty if it
/// matches.
/// @param composed the functions without an OpDef
std::vector<std::string> check_table(const std::string& path, const std::vector<OpDef>& composed);

}  // namespace etna::conformance
