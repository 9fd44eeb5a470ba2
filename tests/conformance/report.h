#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <etna/tensor/op.h>

/// What the walk has measured, and the files it writes.
namespace etna::conformance {

/// Largest errors by dtype; empty where nothing ran.
using Errors = std::map<DType, double>;

struct OpReport {
  std::string kind;     ///< "base", "fused", "view"
  std::string through;  ///< the op whose samples exercise it, where it has none of its own
  Errors cpu, gpu, cpu_gradient, gpu_gradient;
  std::string differences;  ///< "1st", "1st, 2nd" or empty
  bool gpu_kernel = false;
};

class Report {
 public:
  OpReport& of(const OpDef& op);

  void write_table(const std::string& path, const std::string& gpu_name) const;

 private:
  std::map<std::string, OpReport> ops_;
};

Report& report();

/// Where the table at `path` does not list exactly the ops there are: what is missing or too much, one a line.
std::vector<std::string> check_table(const std::string& path);

}  // namespace etna::conformance
