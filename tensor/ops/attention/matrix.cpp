#include <etna/tensor/ops/attention/internal/matrix.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/overrides.h>

namespace etna::attention {
namespace {

constexpr const char* kNames[] = {"plain", "coopmat", "coopmat2", "cubin"};

std::optional<KernelVariant> variant_in_environment() {
  const char* value = std::getenv("ETNA_ATTENTION");
  if (value == nullptr || *value == 0 || std::string(value) == "auto") return {};
  for (int i = 0; i < 4; ++i) {
    if (std::string(value) == kNames[i]) return static_cast<KernelVariant>(i);
  }
  throw Error(fmt::format("ETNA_ATTENTION is '{}'; it may be auto, plain, coopmat, coopmat2 or cubin", value));
}

const gpu::Shader& shader_of(Pass pass, KernelVariant variant, DType t) {
  using namespace shaders;
  static const gpu::Shader* const all[2][5][2] = {{{&attention_coopmat_f16, &attention_coopmat_bf16},
                                                   {&attention_dq_coopmat_f16, &attention_dq_coopmat_bf16},
                                                   {&attention_dkv_coopmat_f16, &attention_dkv_coopmat_bf16},
                                                   {&attention_paged_coopmat_f16, &attention_paged_coopmat_bf16},
                                                   {&attention_paged_coopmat_q8, &attention_paged_coopmat_q8}},
                                                  {{&attention_coopmat2_f16, &attention_coopmat2_bf16},
                                                   {&attention_dq_coopmat2_f16, &attention_dq_coopmat2_bf16},
                                                   {&attention_dkv_coopmat2_f16, &attention_dkv_coopmat2_bf16},
                                                   {&attention_paged_coopmat2_f16, &attention_paged_coopmat2_bf16},
                                                   {&attention_paged_coopmat2_q8, &attention_paged_coopmat2_q8}}};
  return *all[variant == KernelVariant::coopmat2][static_cast<int>(pass)][t == bf16];
}

bool is_forward(Pass pass) { return pass != Pass::dq && pass != Pass::dkv; }

struct Tiles {
  std::uint32_t subgroups, rows, columns;
};

/// Measured on an H200; docs/attention.md has the table. Registers limit the tile size: a subgroup keeps its operands
/// and sums in them.
Tiles tiles(Pass pass, KernelVariant variant, std::int64_t size, std::int64_t keys) {
  if (size > 128) return {4, 1, 16};
  const bool forward = is_forward(pass);
  if (size > 64) return forward && variant == KernelVariant::coopmat2 ? Tiles{8, 1, 64} : Tiles{4, 1, 32};
  switch (pass) {
    case Pass::paged:
    case Pass::paged_q8:  // a tile of keys lies inside a block of the cache
      return variant == KernelVariant::coopmat || size <= 32 ? Tiles{4, 2, 64} : Tiles{4, 1, 64};
    case Pass::forward:
      if (variant == KernelVariant::coopmat) return {4, 1, 64};
      if (size <= 32) return {4, 2, 64};
      return keys < 1024 ? Tiles{4, 1, 64} : Tiles{8, 1, 128};
    case Pass::dq:
      return {4, 2, variant == KernelVariant::coopmat2 && size <= 32 ? 64u : 32u};
    default:
      return {4, variant == KernelVariant::coopmat2 ? 2u : 1u, 64};
  }
}

/// True if rows consist of 16-byte vectors and start at 16-byte addresses.
bool aligned(const Tensor& x) {
  if (x.address() % 16 != 0) return false;
  for (int d = 0; d < 3; ++d) {
    if (x.strides()[d] % 8 != 0) return false;
  }
  return true;
}

/// Rows of the left operand's matrix; 0 if the device does not support such matrices.
std::uint32_t left_rows(const gpu::Capabilities& can, KernelVariant variant, DType t) {
  if (!can.cooperative_matrix || (variant == KernelVariant::coopmat2 && !can.cooperative_matrix2)) return 0;
  gpu::MatrixShape shape{16, 16, 16, t == bf16 ? gpu::MatrixElement::bf16 : gpu::MatrixElement::f16,
                         gpu::MatrixElement::f32};
  if (can.has(shape)) return 16;
  shape.m = 8;
  return variant == KernelVariant::coopmat && can.has(shape) ? 8 : 0;
}

/// The best kernel that the device, the build and ETNA_ATTENTION allow.
/// @param rows that the workgroups share @param keys of a sequence
std::optional<MatrixKernel> best_kernel(Pass pass, Device device, DType t, std::int64_t rows, std::int64_t keys,
                                        std::int64_t size, std::uint32_t mask_dtype) {
  if ((t != f16 && t != bf16) || size % 8 != 0) return {};
  const gpu::Capabilities& can = gpu::capabilities(device);
  const std::optional<KernelVariant> wanted = wanted_variant();
  for (KernelVariant variant : {KernelVariant::coopmat2, KernelVariant::coopmat}) {
    if (wanted && *wanted != variant) continue;
    const gpu::Shader& shader = shader_of(pass, variant, t);
    const std::uint32_t m = left_rows(can, variant, t);
    if (m == 0 || shader.words.empty()) continue;
    Tiles chosen = tiles(pass, variant, size, keys);
    // The tile need not be longer than the sequence.
    if (rows <= chosen.subgroups * m) chosen.rows = 1;
    const auto blocks = static_cast<std::uint32_t>((size + 15) / 16);
    MatrixKernel kernel{&shader, can.subgroup_size, chosen.subgroups, chosen.rows, blocks, chosen.columns,
                        m,       mask_dtype};
    if (kernel.shared_bytes(pass, variant) <= can.shared_memory_bytes && kernel.threads() <= can.max_workgroup_size)
      return kernel;
  }
  return {};
}

}  // namespace

std::optional<KernelVariant> wanted_variant() {
  static const std::optional<KernelVariant> from_environment = variant_in_environment();
  const std::optional<KernelVariant> given = overrides().attention_variant;
  return given ? given : from_environment;
}

std::uint32_t MatrixKernel::shared_bytes(Pass pass, KernelVariant variant) const {
  std::uint32_t pitch = 2 * blocks + 1,
                vectors = std::max({2 * columns * pitch, subgroups * m * pitch, subgroups * m * 17});
  std::uint32_t scratch = 0;  // in bytes
  const bool forward = is_forward(pass);
  if (!forward) scratch += 8 * (pass == Pass::dq ? tile() : columns);
  if (variant == KernelVariant::coopmat && forward)
    scratch += subgroups * m * (columns / 4 + 1 + columns / 8 + 1) * 16 + 12 * tile();
  if (variant == KernelVariant::coopmat && !forward) scratch += subgroups * m * 8 * 16;
  return vectors * 16 + scratch;
}

std::optional<MatrixKernel> matrix_kernel(Pass pass, const Inputs& in, double scale, std::uint32_t mask_dtype,
                                          std::initializer_list<const Tensor*> operands) {
  if (!(scale > 0) || !std::isfinite(scale)) return {};
  if (!std::all_of(operands.begin(), operands.end(), [](const Tensor* x) { return aligned(*x); })) return {};
  return best_kernel(pass, in.q.device(), in.q.dtype(), pass == Pass::dkv ? in.keys : in.queries, in.keys, in.size,
                     mask_dtype);
}

std::optional<MatrixKernel> paged_matrix_kernel(Device device, DType q, DType cache, std::int64_t rows,
                                                std::int64_t size) {
  if (cache != q && (cache != u8 || q != bf16)) return {};
  return best_kernel(cache == u8 ? Pass::paged_q8 : Pass::paged, device, q, rows, 0, size, 99);
}

}  // namespace etna::attention
