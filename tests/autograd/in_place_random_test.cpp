#include <algorithm>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/capture.h>

#include "in_place_program.h"
#include "nn/on_device.h"
#include "runner/run_tests.h"

// Writes in place against the same programs without any (in_place_program.h).
namespace etna {
namespace {

class InPlacePrograms : public OnDevice {
 protected:
  static TensorOptions options() { return {device().is_cpu() ? f64 : f32, device()}; }
  static double tolerance() { return device().is_cpu() ? 1e-10 : 2e-4; }
};
ETNA_ON_EVERY_DEVICE(InPlacePrograms);

TensorList gradients(const Tensor& loss, const TensorList& leaves, bool create_graph = false) {
  TensorList grads = autograd::grad(std::span(&loss, 1), leaves, {}, create_graph, create_graph);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!grads[i].defined()) grads[i] = zeros_like(leaves[i]);
  }
  return grads;
}

/// Gradients of a sum of squared gradients.
TensorList second_gradients(const Tensor& loss, const TensorList& leaves) {
  Tensor squares = sum(leaves[0] * 0.0);
  for (const Tensor& g : gradients(loss, leaves, true)) squares = squares + sum(g * g);
  return gradients(squares, leaves);
}

void expect_all_near(const TensorList& got, const TensorList& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    expect_near(got[i], wanted[i], tolerance, tolerance);
  }
}

void expect_central_differences(InPlaceProgram& program, const TensorList& grads) {
  constexpr double kStep = 1e-5;
  for (std::size_t l = 0; l < program.leaves.size(); ++l) {
    double* p = program.leaves[l].mutable_data<double>();
    const std::vector<double> got = grads[l].to_vector<double>();
    for (std::int64_t e = 0; e < 12; e += 5) {
      const auto loss_at = [&](double by) {
        p[e] += by;
        const double loss = program.run().loss.item<double>();
        p[e] -= by;
        return loss;
      };
      const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(got[static_cast<std::size_t>(e)], difference, 1e-4 * std::max(1.0, std::abs(difference)));
    }
  }
}

/// The second call is recorded, the third replayed.
void expect_same_when_captured(InPlaceProgram& program, CaptureOptions options) {
  auto step = capture(
      [&] {
        const InPlaceProgram::Result result = program.run();
        TensorList all = gradients(result.loss, program.leaves);
        all.insert(all.end(), result.values.begin(), result.values.end());
        return all;
      },
      std::move(options));
  TensorList eager;
  for (const Tensor& x : step()) eager.push_back(x.clone());
  for (int call = 0; call < 2; ++call) {
    const TensorList again = step();
    for (std::size_t i = 0; i < again.size(); ++i)
      ASSERT_EQ(again[i].to_vector<double>(), eager[i].to_vector<double>()) << "call " << call << ", tensor " << i;
  }
}

TEST_P(InPlacePrograms, AgreeWithProgramsWithoutWritesInPlace) {
  const std::uint32_t count = test_all() ? 2000 : device().is_cpu() ? 300 : 60;
  int refused = 0, seconds = 0;
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    InPlaceProgram program(seed, options());
    const InPlaceProgram::Result wanted = program.run_with_reference();
    expect_all_near(program.got().values, wanted.values, tolerance());
    if (program.overwrites_what_backward_needs()) {
      ++refused;
      EXPECT_THAT([&] { gradients(program.got().loss, program.leaves); },
                  testing::ThrowsMessage<GradError>(
                      testing::HasSubstr("'mul' saved was modified in place afterwards, last by '")));
    } else {
      const TensorList grads = gradients(program.got().loss, program.leaves);
      expect_all_near(grads, gradients(wanted.loss, program.wanted_leaves), tolerance());
      if (seed % 4 == 0 && ++seconds) {
        expect_all_near(second_gradients(program.run().loss, program.leaves),
                        second_gradients(program.run_with_reference().loss, program.wanted_leaves), 10 * tolerance());
      }
      if (seed % 16 == 1 && device().is_cpu()) expect_central_differences(program, grads);
      const bool fused = device().is_cpu() || seed % 64 == 1;  // each fused program compiles kernels
      expect_same_when_captured(program, {.device = device(), .one_by_one = !fused});
    }
    if (HasFailure()) return;
  }
  report_count(device().is_cpu() ? "programs of writes in place on the CPU" : "programs of writes in place on Vulkan",
               count);
  EXPECT_GT(refused, static_cast<int>(count) / 50);
  EXPECT_GT(seconds, static_cast<int>(count) / 8);
}

}  // namespace
}  // namespace etna
