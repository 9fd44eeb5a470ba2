#pragma once

#include <span>

#include <etna/tensor/internal/layout.h>
#include <etna/tensor/op.h>

/// The implementation of the rows of elementwise.def, and of cast, copy and the in-place methods.
namespace etna::elementwise {

/// The rows in the table's order; the shader numbers them the same way. `identity`, after the last row, copies operand
/// a.
enum class Row : int {
#define ETNA_ELEMENTWISE(name, ...) name##_,
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
  identity
};

/// The arity column as the number of operands.
#define ETNA_ARITY(ARITY) ETNA_ARITY_##ARITY
#define ETNA_ARITY_1 1
#define ETNA_ARITY_2 2
#define ETNA_ARITY_3 3
#define ETNA_ARITY_1n 2
#define ETNA_ARITY_2n 3

/// @param scalar_at 1, 2 or 3: that operand is `scalar` and its tensor undefined; 0: none.
struct ElementwiseAttrs {
  Row row = Row::identity;
  int scalar_at = 0;
  double scalar = 0;
  DType result = DType::f32;   ///< dtype of the output
  DType compute = DType::f32;  ///< dtype of the computation, before f16 and bf16 become f32
};

/// One evaluation: y[i] = row(a[i], b[i], c[i]) with broadcasting; y may be any view, and may be an operand itself.
struct Evaluation {
  const char* name;
  ElementwiseAttrs attributes;
  int arity;
  std::span<const Tensor> operands;
  const Tensor& y;
};

void cpu(const Evaluation& evaluation);
bool on_gpu(const Evaluation& evaluation);
/// For operands whose contiguous dimension is not the result's, such as a transposed matrix: runs
/// shaders/elementwise/elementwise_transposed.comp, for computations in f32 or i32 on a GPU. Returns false, having
/// queued nothing, if it does not apply.
/// @param operands y, a, b, c as in `layout` @param scalar the operand that is a number, as the kernel takes it
bool transposed(const Evaluation& evaluation, const Layout& layout, const Tensor* const* operands,
                std::uint64_t scalar);
/// On the CPU: copies between tensors of one dtype whose contiguous dimensions differ, tile by tile. Returns false,
/// having copied nothing, if it does not apply.
/// @param layout of y and the operand
bool transposed_copy(const Evaluation& evaluation, const Layout& layout);
/// Runs on y's device. Falls back to the CPU, counted, if the GPU has no kernel for the dtypes.
void run(const Evaluation& evaluation);

/// Gradients of the row's operands, summed to their shapes.
TensorList vjp(const VjpCall& call);

}  // namespace etna::elementwise
