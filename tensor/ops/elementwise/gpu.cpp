#include <algorithm>
#include <bit>
#include <cmath>

#include <etna/device/internal/graph/fusion_info.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/internal/layout.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>
#include <etna/tensor/ops/kernel.h>

namespace etna::elementwise {
namespace {

/// One dispatch over at most four dimensions: the arguments of shaders/elementwise/elementwise.comp.
struct Iteration {
  Pointer operands[kMaxOperands];  ///< y, a, b, c; null for an absent operand or a number
  std::uint64_t scalar = 0;
  std::uint32_t n = 0;
  std::uint32_t sizes[4] = {};                  ///< outermost first; 1 for absent dimensions
  std::uint32_t strides[kMaxOperands][4] = {};  ///< per operand
};

/// The variant for these dtypes, or null. The f32 variant loads and stores every dtype except f64; the i64 variant is
/// needed only to compute in i64.
const gpu::Shader* shader_for(const Evaluation& e) {
  const gpu::Capabilities& can = gpu::capabilities(e.y.device());
  DType compute = e.attributes.compute;
  bool f64_involved = compute == f64 || e.y.dtype() == f64;
  for (const Tensor& x : e.operands) f64_involved = f64_involved || (x.defined() && x.dtype() == f64);
  if (f64_involved) {
    return e.attributes.row == Row::identity && can.float64 && can.int64 ? &shaders::cast_f64 : nullptr;
  }
  const gpu::Variants variants{shaders::elementwise_float, shaders::elementwise_int, shaders::elementwise_i64,
                               shaders::elementwise_pairs};
  return &variants.of(compute, e.y.device());
}

std::uint64_t scalar_words(double value, DType compute, const gpu::Shader* shader) {
  if (shader == &shaders::cast_f64) return std::bit_cast<std::uint64_t>(value);
  if (is_floating(compute)) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

/// The GLSL expression of each row, for shaders/elementwise/elementwise.comp.
constexpr const char* kExpressions[] = {
#define ETNA_ELEMENTWISE(name, arity, result, saved, cpp, glsl, ...) #glsl,
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
    "a"};

/// Describes the computation, so that a captured step can fuse it. Returns false for computations in 64 bits.
bool describe(const Evaluation& e, const Iteration& it, const Tensor* const* operands, gpu::ElementwiseInfo& out) {
  const DType compute = e.attributes.compute, result = e.y.dtype();
  if (compute == f64 || result == f64 || (!is_floating(compute) && compute == i64) || result == i64) return false;
  out.name = e.name;
  out.expression = kExpressions[static_cast<int>(e.attributes.row)];
  out.integers = !is_floating(compute);
  out.arity = e.arity;
  out.scalar_at = e.attributes.scalar_at;
  out.scalar = static_cast<std::uint32_t>(it.scalar);
  out.n = it.n;
  for (int k = 0; k <= e.arity; ++k) {
    if (!operands[k]->defined()) continue;
    if (operands[k]->dtype() == f64) return false;
    out.operands[static_cast<std::size_t>(k)] = {it.operands[k].address, gpu::u32(operands[k]->dtype()), it.sizes,
                                                 it.strides[k]};
  }
  return true;
}

/// The number of four-element runs per thread; 0 if the operands do not come in fours. They must be floats, aligned,
/// and either dense in the last dimension or repeating one element there.
std::uint32_t runs_of(const Evaluation& e, const Iteration& it, const Tensor* const* operands, bool strided) {
  if ((strided ? it.sizes[3] : it.n) % 4 != 0) return 0;
  for (int k = 0; k <= e.arity; ++k) {
    if (!operands[k]->defined()) continue;
    const DType t = operands[k]->dtype();
    if (t != f32 && t != f16 && t != bf16) return 0;
    const std::uint32_t* strides = it.strides[k];
    if (strided && k > 0 && strides[3] == 0) continue;
    if (it.operands[k].address % (4 * item_size(t)) != 0 || (strided && strides[3] != 1)) return 0;
    if (strided && (strides[0] % 4 != 0 || strides[1] % 4 != 0 || strides[2] % 4 != 0)) return 0;
  }
  // As many runs as still leave every compute unit fully occupied.
  const std::uint32_t units = gpu::capabilities(e.y.device()).compute_units;
  return it.n >= 8 * units * 4096 ? 4 : it.n >= 8 * units * 2048 ? 2 : 1;
}

void dispatch(const Evaluation& e, const gpu::Shader& shader, const Iteration& it, const Tensor* const* operands,
              int rank, bool strided) {
  const std::uint32_t runs = &shader == &shaders::elementwise_float ? runs_of(e, it, operands, strided) : 0;
  gpu::ElementwiseInfo info;
  const bool described = capturing() && describe(e, it, operands, info);
  gpu::Kernel kernel(shader, e.name);
  kernel.on(e.y.device()).spec(e.attributes.row, strided ? rank : 0, e.attributes.scalar_at);
  for (int k = 0; k < kMaxOperands; ++k) {
    kernel.spec(k <= e.arity && operands[k]->defined() ? operands[k]->dtype() : DType{});
  }
  kernel.spec(e.arity, runs).write(it.operands[0]);
  for (int k = 1; k < kMaxOperands; ++k) kernel.read(it.operands[k]);
  kernel.u64(it.scalar).u32(it.n).u32(std::span(it.sizes).last<3>());
  for (const auto& strides : it.strides) kernel.u32(strides);
  kernel.fusible(described ? &info : nullptr).dispatch(gpu::grid(it.n, 1024 * std::max(1u, runs)));
}

/// Dispatches over the last four dimensions, once for each index of the dimensions before them.
void iterate(const Evaluation& e, const gpu::Shader& shader, const Layout& layout, int first, Iteration it,
             const Tensor* const* operands) {
  const int rank = layout.shape.rank();
  if (rank - first > 4) {
    for (std::int64_t i = 0; i < layout.shape[first]; ++i) {
      iterate(e, shader, layout, first + 1, it, operands);
      for (int k = 0; k < layout.operands; ++k) {
        if (!it.operands[k]) continue;
        it.operands[k] += static_cast<std::uint64_t>(layout.strides[k][first]) * item_size(operands[k]->dtype());
      }
    }
    return;
  }
  it.n = 1;
  for (int d = first; d < rank; ++d) it.n *= static_cast<std::uint32_t>(layout.shape[d]);
  for (int j = 0; j < 4; ++j) {
    const int d = rank - 4 + j;
    const bool there = d >= first;
    it.sizes[j] = there ? static_cast<std::uint32_t>(layout.shape[d]) : 1;
    for (int k = 0; k < layout.operands; ++k)
      it.strides[k][j] = there ? static_cast<std::uint32_t>(layout.strides[k][d]) : 0;
  }
  dispatch(e, shader, it, operands, rank - first, !layout.all_contiguous());
}

}  // namespace

bool on_gpu(const Evaluation& e) {
  const gpu::Shader* shader = shader_for(e);
  if (shader == nullptr) return false;
  if (e.y.numel() == 0) return true;
  const Tensor* operands[kMaxOperands] = {&e.y};
  for (int k = 0; k < e.arity; ++k) operands[k + 1] = &e.operands[static_cast<std::size_t>(k)];
  Layout layout =
      merge_layout(e.y.shape(), std::span<const Tensor* const>(operands, static_cast<std::size_t>(e.arity + 1)));
  // A number takes the result's strides: it counts as contiguous if the result is.
  if (e.attributes.scalar_at != 0) layout.strides[e.attributes.scalar_at] = layout.strides[0];
  Iteration it;
  for (int k = 0; k <= e.arity; ++k) it.operands[k] = gpu::pointer(*operands[k]);
  it.scalar = scalar_words(e.attributes.scalar, e.attributes.compute, shader);
  const bool words = shader == &shaders::elementwise_float || shader == &shaders::elementwise_int;
  if (words && transposed(e, layout, operands, it.scalar)) return true;
  iterate(e, *shader, layout, 0, it, operands);
  return true;
}

}  // namespace etna::elementwise
