#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <etna/tensor/ops.h>

#include "workload.h"

namespace bench {

/// c = op(a) · op(b), where op transposes if asked; op(a) is [m, k], op(b) is [k, n].
struct GemmSizes {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  auto operator<=>(const GemmSizes&) const = default;
};

/// One thing to time. `bytes` is the least that the op must touch (each input read once, each output written once), not
/// what a kernel actually moves. `flops` counts a multiply and an add as two.
struct Case {
  std::string name;
  double bytes = 0;
  double flops = 0;
  /// Makes the inputs on a device and returns the call to time. The call may queue work; the timer synchronizes.
  std::function<std::function<void()>(etna::Device)> prepare;
  /// Timed as in a captured step: ops fused, calls concurrent. Otherwise one dispatch after the other.
  bool captured = false;
  /// The equivalent plain gemm, for comparison with other libraries.
  std::optional<GemmSizes> gemm = {};
};

using Cases = std::vector<Case>;

/// Standard normal, from a fixed seed.
etna::Tensor normal(etna::Shape shape, etna::Device device, etna::DType dtype = etna::f32);

/// A call of f() without recording on the tape.
std::function<void()> untaped(std::function<void()> f);
/// Times the backward pass alone: the gradient of y, with a gradient of ones, with respect to `inputs`.
std::function<void()> backward_of(const etna::Tensor& y, std::vector<etna::Tensor> inputs);

// One file per topic; each lists its cases in the sizes of a workload.
Cases elementwise_cases(const Workload& w);
Cases row_cases(const Workload& w);
Cases gemm_cases(const Workload& w);
Cases attention_cases(const Workload& w);
Cases indexing_cases(const Workload& w);
Cases loss_cases(const Workload& w);
Cases optimizer_cases(const Workload& w);
Cases recurrent_cases(const Workload& w);
Cases all_cases(const Workload& w);

}  // namespace bench
