// Checks of ops against the CPU in f64, and their times.
#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

#include "call.h"
#include "op_cases.h"

namespace etna::web {
namespace {

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

const OpCase& case_named(const std::string& name) {
  for (const OpCase& one : op_cases())
    if (one.name == name) return one;
  throw Error(fmt::format("bench_op: there is no op '{}'", name));
}

/// Operands in f64 on the CPU, the same numbers for every device. They are rounded to f32 first, so that rounding of
/// operands is no part of an error.
std::vector<Tensor> draw(const OpCase& one) {
  manual_seed(7);
  std::vector<Tensor> operands;
  for (const Operand& operand : one.operands) {
    if (operand.classes > 0) {
      operands.push_back(randint(0, operand.classes, operand.shape));
    } else {
      operands.push_back((rand(operand.shape) * (operand.high - operand.low) + operand.low).to(f64));
    }
  }
  return operands;
}

/// Copies that are leaves: in f32 on a device, or in f64 on the CPU.
std::vector<Tensor> leaves(const OpCase& one, const std::vector<Tensor>& drawn, DType dtype, Device device) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const bool numbers = one.operands[i].classes == 0;
    Tensor copy = (numbers ? drawn[i].to(dtype) : drawn[i]).to(device).clone();
    if (numbers && one.operands[i].differentiable) copy.requires_grad_();
    operands.push_back(copy);
  }
  return operands;
}

/// The largest difference by the largest magnitude.
double error_of(const Tensor& got, const Tensor& wanted) {
  const Tensor difference = (got.detach().to(kCPU).to(f64) - wanted.detach()).abs();
  const double error = difference.max().item(), size = wanted.detach().abs().max().item();
  return std::isfinite(error) ? error / std::max(size, 1e-30) : error;
}

/// The gradient flows in with different weights, so that an op whose gradients cancel is checked, too.
void differentiate(const Tensor& y) {
  manual_seed(11);
  y.backward(rand(y.shape()).to(y.dtype()).to(y.device()));
}

Json list_ops(const Json&) {
  Json names = Json::array();
  for (const OpCase& one : op_cases()) names.push_back(one.name);
  return {{"ops", names}};
}

/// @return relative errors of the result and of the gradients, and what they may be
Json check_op(const Json& args) {
  const OpCase& one = case_named(args.at("op").get<std::string>());
  const Device device = device_of(args);
  const std::vector<Tensor> drawn = draw(one);
  const std::vector<Tensor> exact = leaves(one, drawn, f64, kCPU), tested = leaves(one, drawn, f32, device);
  const Tensor wanted = one.run(exact), got = one.run(tested);
  const double error = error_of(got, wanted);
  differentiate(wanted), differentiate(got);
  double gradient_error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!exact[i].requires_grad()) continue;
    const double one_error = error_of(tested[i].grad(), exact[i].grad());
    gradient_error = std::isfinite(one_error) ? std::max(gradient_error, one_error) : one_error;
    if (!std::isfinite(one_error)) break;
  }
  // Sums of a thousand numbers in f32 differ by some 1e-6; approximations of functions on GPUs by a few 1e-6.
  const double limit = 2e-5;
  const bool ok = error <= limit && gradient_error <= limit;
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  return {{"forward_error", number(error)}, {"gradient_error", number(gradient_error)}, {"limit", limit}, {"ok", ok}};
}

/// @return the time of one forward pass, from a batch of calls with one wait at its end; the best of several batches
Json time_op(const Json& args) {
  NoGrad no_grad;
  const OpCase& one = case_named(args.at("op").get<std::string>());
  const Device device = device_of(args);
  const double budget = number_of(args.at("milliseconds"));
  std::vector<Tensor> operands = leaves(one, draw(one), f32, device);
  const auto batch = [&](int calls) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) one.run(operands);
    synchronize(device);
    return milliseconds_since(begin) / calls;
  };
  batch(1);
  const int calls = std::clamp(static_cast<int>(budget / 4 / std::max(batch(1), 1e-3)), 1, 1000);
  double best = batch(calls);
  const auto begin = Clock::now();
  while (milliseconds_since(begin) < budget * 3 / 4) best = std::min(best, batch(calls));
  return {{"milliseconds", best}, {"flops", one.flops}, {"bytes", one.bytes}};
}

}  // namespace

void add_check_methods(Methods& methods) {
  methods["ops"] = list_ops;
  methods["check_op"] = check_op;
  methods["time_op"] = time_op;
}

}  // namespace etna::web
