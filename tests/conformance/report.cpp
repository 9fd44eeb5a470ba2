#include <conformance/report.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

namespace etna::conformance {
namespace {

std::ofstream open(const std::string& path) {
  std::ofstream out(path);
  if (!out) throw std::runtime_error("cannot write " + path);
  return out;
}

/// "2e-7", "0"; rounded up, so that a table is an upper bound.
std::string figure(double error) {
  if (error == 0) return "0";
  if (!std::isfinite(error)) return "differs";
  double power = std::pow(10.0, std::floor(std::log10(error)));
  return fmt::format("{:.0e}", std::ceil(error / power * (1 - 1e-12)) * power);
}

std::string cell(const Errors& errors, DType t) {
  auto at = errors.find(t);
  return at == errors.end() ? "—" : figure(at->second);
}

/// Whole numbers and bool are exact or fail, so the report only names their dtypes.
std::string others(const Errors& errors) {
  std::string list;
  for (const auto& [t, error] : errors) {
    if (!is_floating(t)) list += fmt::format("{}{}", list.empty() ? "" : " ", name(t));
  }
  return list.empty() ? "—" : list;
}

constexpr const char* kHead = R"(# Ops

Every op there is, with the largest error the conformance walk saw on its samples: the difference to the values of the
composed reference in f64, divided by the larger of the wanted value and the root mean square of the wanted values. f16
and bf16 are computed in f32 and rounded once, so their best figures are 5e-4 and 4e-3. Whole numbers and bool are
exact; their dtypes are named. `—`: no kernel, or nothing to measure. Differences: gradients of first and second order
agree with central differences in f64. A composed op calls others and has no kernel of its own.

On WebGPU in f32 every op has a kernel. f64 is computed on the CPU.

)";

}  // namespace

Report& report() {
  static Report one;
  return one;
}

OpReport& Report::of(const OpDef& op) {
  OpReport& r = ops_[op.name];
  r.kind = op.direct != nullptr ? "view" : op.reference != nullptr ? "fused" : op.cpu != nullptr ? "base" : "composed";
  r.gpu_kernel = op.gpu != nullptr || op.direct != nullptr;
  return r;
}

void Report::write_table(const std::string& path, const std::string& gpu_name) const {
  std::ofstream out = open(path);
  out << kHead << "GPU: " << gpu_name
      << ". Written by `ETNA_TEST_ALL=1 build/bin/test_conformance --table docs/ops.md`.\n\n";
  out << "| op | kind | CPU f64 | f32 | f16 | bf16 | others | GPU f32 | f16 | bf16 | others | gradient CPU f32 | GPU "
         "f32 | differences |\n";
  out << "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [op, r] : ops_) {
    std::string kind = r.through.empty() ? r.kind : r.kind + ", in the gradient of " + r.through;
    out << fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", op, kind,
                       cell(r.cpu, f64), cell(r.cpu, f32), cell(r.cpu, f16), cell(r.cpu, bf16), others(r.cpu),
                       cell(r.gpu, f32), cell(r.gpu, f16), cell(r.gpu, bf16), others(r.gpu), cell(r.cpu_gradient, f32),
                       cell(r.gpu_gradient, f32), r.differences.empty() ? "—" : r.differences);
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

std::vector<std::string> check_table(const std::string& path, const std::vector<OpDef>& composed) {
  std::set<std::string> listed;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ") || line.starts_with("| op |")) continue;
    listed.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  std::vector<std::string> wrong;
  auto look_for = [&](const OpDef& op) {
    if (listed.erase(op.name) == 0) wrong.push_back(fmt::format("{} lacks the op {}", path, op.name));
  };
  for (const OpDef* op : all_ops()) look_for(*op);
  for (const OpDef& op : composed) look_for(op);
  for (const std::string& op : listed) wrong.push_back(fmt::format("{} lists {}, which is no op", path, op));
  return wrong;
}

}  // namespace etna::conformance
