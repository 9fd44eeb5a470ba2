#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include <etna/device/kernel.h>
#include <etna/tensor/multi_tensor.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/multi_tensor/pieces.h>

/// What the steps of all optimizers share. Their inputs are a list of `width` tensors for each parameter: itself, its gradient,
/// its state.
namespace etna::multi_tensor {

/// f64 for an f64 parameter, else f32.
DType state_dtype(const Tensor& parameter);

/// The control behind the list, or an undefined tensor.
Tensor control_of(const OpCall& call, std::size_t width);
/// Its values on the CPU; those of a plain step where there is none.
StepControl read_control(const OpCall& call, std::size_t width);
/// gradient · factor, and, of what a step would change, what it does change: for references.
struct ControlledStep {
  Tensor control;
  Tensor gradient(const Tensor& g) const;
  Tensor result(const Tensor& before, const Tensor& after) const;
};

/// Checks the list; all but gradients and control are outputs.
std::vector<OutputSpec> infer_step(const OpCall& call, std::size_t width);

/// Runs `update(S x, S g, S* state_a, S* state_b)` over a piece at a time; S is float, or double for f64 parameters.
template <typename Update>
void walk_step(const OpCall& call, std::size_t width, const Update& update) {
  if (read_control(call, width).skip != 0) return;
  std::size_t count = call.in.size() / width;
  Pieces pieces(kPiece);
  TensorList gradients;
  for (std::size_t k = 0; k < count; ++k) {
    pieces.add(call.in[k * width].numel());
    gradients.push_back(call.in[k * width + 1].contiguous());
  }
  pieces.parallel([&](std::int64_t, std::size_t k, std::int64_t begin, std::int64_t end) {
    const Tensor* list = &call.in[k * width];
    auto typed = [&](auto zero) {
      using S = decltype(zero);
      alignas(64) S x_buffer[kPiece], g_buffer[kPiece];
      S* x = load(list[0], begin, end, x_buffer);
      const S* g = load(gradients[k], begin, end, g_buffer);
      S* a = width > 2 ? list[2].data<S>() + begin : nullptr;
      S* b = width > 3 ? list[3].data<S>() + begin : nullptr;
      update(x, g, a, b, end - begin);
      store(list[0], begin, end, x);
    };
    if (list[0].dtype() == f64)
      typed(double{});
    else
      typed(float{});
  });
}

/// Records one dispatch of shaders/optimizer.comp. False where something is f64, which no GPU kernel steps.
/// @param scalars writes kScalars floats from the op's attributes
bool dispatch_step(const OpCall& call, const gpu::Shader& shader, std::size_t width,
                   void (*scalars)(const Attrs&, std::byte*), std::initializer_list<std::uint32_t> flags);

}  // namespace etna::multi_tensor
