#include <algorithm>
#include <bit>
#include <cmath>

#include <etna/device/fusion_info.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/layout.h>
#include <etna/tensor/ops/elementwise/elementwise.h>
#include <etna/tensor/vulkan.h>

namespace etna::elementwise {
namespace {

struct Push {
  vulkan::Word64 y, a, b, c;
  vulkan::Word64 scalar;
  std::uint32_t n;
  std::uint32_t sizes[3];
  std::uint32_t strides[4][4];
};
static_assert(sizeof(Push) == 120);

/// The variant for these dtypes, or null. f32 loads and stores everything but f64; i64 is needed only where it is computed in.
const gpu::Shader* shader_for(const Evaluation& e) {
  const gpu::Capabilities& can = gpu::capabilities(e.y.device());
  DType compute = e.attributes.compute;
  bool f64_involved = compute == f64 || e.y.dtype() == f64;
  for (const Tensor& x : e.operands) f64_involved = f64_involved || (x.defined() && x.dtype() == f64);
  if (f64_involved) {
    return e.attributes.row == Row::identity && can.float64 && can.int64 ? &shaders::cast_f64 : nullptr;
  }
  if (is_floating(compute)) return &shaders::elementwise_float;
  if (compute == i64) return can.int64 ? &shaders::elementwise_i64 : nullptr;
  return &shaders::elementwise_int;
}

std::uint64_t scalar_words(double value, DType compute, const gpu::Shader* shader) {
  if (shader == &shaders::cast_f64) return std::bit_cast<std::uint64_t>(value);
  if (is_floating(compute)) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

/// GLSL of each row, as shaders/elementwise.comp has it.
constexpr const char* kExpressions[] = {
#define ETNA_ELEMENTWISE(name, arity, result, saved, cpp, glsl, ...) #glsl,
#include <etna/tensor/ops/elementwise/elementwise.def>
#undef ETNA_ELEMENTWISE
    "a"};

/// The dispatch in words, for a recording that may join it with others. False for what needs 64 bits.
bool describe(const Evaluation& e, const Push& push, const Layout& layout, int first, const Tensor* const* operands,
              gpu::ElementwiseInfo& out) {
  const DType compute = e.attributes.compute, result = e.y.dtype();
  if (compute == f64 || result == f64 || (!is_floating(compute) && compute == i64) || result == i64) return false;
  out.name = e.name;
  out.expression = kExpressions[static_cast<int>(e.attributes.row)];
  out.integers = !is_floating(compute);
  out.arity = e.arity;
  out.scalar_at = e.attributes.scalar_at;
  out.scalar = static_cast<std::uint32_t>(push.scalar);
  out.n = push.n;
  const std::uint64_t addresses[] = {push.y, push.a, push.b, push.c};
  std::array<std::uint32_t, 4> sizes = {1, push.sizes[0], push.sizes[1], push.sizes[2]};
  if (layout.shape.rank() - first == 4) sizes[0] = vulkan::word(layout.shape[first]);
  for (int k = 0; k < layout.operands; ++k) {
    if (!operands[k]->defined()) continue;
    if (operands[k]->dtype() == f64) return false;
    out.operands[static_cast<std::size_t>(k)] = {addresses[k], vulkan::word(operands[k]->dtype()), sizes,
                                                 push.strides[k]};
  }
  return true;
}

/// Runs of four elements that a thread takes of a dispatch; 0 where operands do not come in fours: floats, aligned, each dense in the
/// last dimension or repeating one element there.
std::uint32_t runs_of(const Evaluation& e, const Push& push, const Tensor* const* operands, bool strided) {
  const vulkan::Word64* addresses[] = {&push.y, &push.a, &push.b, &push.c};
  if ((strided ? push.sizes[2] : push.n) % 4 != 0) return 0;
  for (int k = 0; k <= e.arity; ++k) {
    if (!operands[k]->defined()) continue;
    const DType t = operands[k]->dtype();
    if (t != f32 && t != f16 && t != bf16) return 0;
    const std::uint32_t* strides = push.strides[k];
    if (strided && k > 0 && strides[3] == 0) continue;
    if (*addresses[k] % (4 * item_size(t)) != 0 || (strided && strides[3] != 1)) return 0;
    if (strided && (strides[0] % 4 != 0 || strides[1] % 4 != 0 || strides[2] % 4 != 0)) return 0;
  }
  // As many as leave every compute unit its fill of workgroups.
  const std::uint32_t units = gpu::capabilities(e.y.device()).compute_units;
  return push.n >= 8 * units * 4096 ? 4 : push.n >= 8 * units * 2048 ? 2 : 1;
}

/// Dispatches over the last four dimensions, once for each index of those before them.
void launch(const Evaluation& e, const gpu::Shader& shader, const Layout& layout, int first, Push push,
            const Tensor* const* operands) {
  int rank = layout.shape.rank();
  if (rank - first > 4) {
    for (std::int64_t i = 0; i < layout.shape[first]; ++i) {
      launch(e, shader, layout, first + 1, push, operands);
      vulkan::Word64* addresses[] = {&push.y, &push.a, &push.b, &push.c};
      for (int k = 0; k < layout.operands; ++k) {
        if (operands[k]->defined()) {
          *addresses[k] += static_cast<std::uint64_t>(layout.strides[k][first]) * item_size(operands[k]->dtype());
        }
      }
    }
    return;
  }
  push.n = 1;
  for (int d = first; d < rank; ++d) push.n *= static_cast<std::uint32_t>(layout.shape[d]);
  for (int j = 0; j < 4; ++j) {
    int d = rank - 4 + j;
    bool there = d >= first;
    if (j > 0) push.sizes[j - 1] = there ? static_cast<std::uint32_t>(layout.shape[d]) : 1;
    for (int k = 0; k < layout.operands; ++k)
      push.strides[k][j] = there ? static_cast<std::uint32_t>(layout.strides[k][d]) : 0;
  }
  DType dtypes[kMaxOperands] = {};
  vulkan::Range reads[3];
  std::size_t n_reads = 0;
  for (int k = 0; k < layout.operands; ++k) {
    if (!operands[k]->defined()) continue;
    dtypes[k] = operands[k]->dtype();
    if (k > 0) reads[n_reads++] = vulkan::range(*operands[k]);
  }
  vulkan::Range write = vulkan::range(*operands[0]);
  const bool strided = !layout.all_contiguous();
  const std::uint32_t runs = &shader == &shaders::elementwise_float ? runs_of(e, push, operands, strided) : 0;
  const std::uint32_t a_group = 1024 * std::max(1u, runs);
  std::uint32_t spec[] = {static_cast<std::uint32_t>(e.attributes.row),
                          strided ? vulkan::word(rank - first) : 0,
                          vulkan::word(e.attributes.scalar_at),
                          vulkan::word(dtypes[0]),
                          vulkan::word(dtypes[1]),
                          vulkan::word(dtypes[2]),
                          vulkan::word(dtypes[3]),
                          vulkan::word(e.arity),
                          runs};
  gpu::ElementwiseInfo meaning;
  const bool described = capturing() && describe(e, push, layout, first, operands, meaning);
  gpu::record(e.y.device(), {shader,
                                e.name,
                                spec,
                                vulkan::bytes_of(push),
                                vulkan::grid((push.n + a_group - 1) / a_group),
                                {reads, n_reads},
                                {&write, 1},
                                described ? &meaning : nullptr});
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
  // A number that stands for a whole operand is contiguous however the others are walked.
  if (e.attributes.scalar_at != 0) layout.strides[e.attributes.scalar_at] = layout.strides[0];
  Push push{};
  push.y = e.y.address();
  vulkan::Word64* addresses[] = {&push.a, &push.b, &push.c};
  for (int k = 0; k < e.arity; ++k) *addresses[k] = vulkan::address_or_zero(e.operands[static_cast<std::size_t>(k)]);
  push.scalar = scalar_words(e.attributes.scalar, e.attributes.compute, shader);
  const bool words = shader == &shaders::elementwise_float || shader == &shaders::elementwise_int;
  if (words && transposed(e, layout, operands, push.scalar)) return true;
  launch(e, *shader, layout, 0, push, operands);
  return true;
}

}  // namespace etna::elementwise
