#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>

#include <algorithm>

#include <etna/shaders/shaders.h>

namespace etna::gemm {
namespace {

// The flags of shaders/lib/epilogue.glsl.
constexpr std::uint32_t kBias = 1, kScale = 2, kScaleBy = 4, kPreactivation = 8, kDerivative = 16, kResidual = 32,
                        kActivation = 64;

std::uint32_t flags_of(const GemmParams& p) {
  std::uint32_t flags = kActivation * gpu::u32(p.activation);
  if (p.bias) flags |= kBias;
  if (p.scale != 1) flags |= kScale;
  if (p.scale_by) flags |= kScaleBy;
  if (p.preactivation.at) flags |= kPreactivation;
  if (p.derivative_at.at) flags |= kDerivative;
  if (p.residual.at) flags |= kResidual;
  return flags;
}

}  // namespace

std::int64_t vector_width(std::uint64_t address, DType dtype, std::initializer_list<std::int64_t> strides,
                          std::int64_t widest) {
  for (std::int64_t w = widest; w > 1; w /= 2) {
    bool fits = address % (static_cast<std::uint64_t>(w) * item_size(dtype)) == 0;
    for (std::int64_t s : strides) fits = fits && s % w == 0;
    if (fits) return w;
  }
  return 1;
}

Arguments epilogue_arguments(const GemmParams& p) {
  Arguments all;
  all.write(p.y.at);
  all.read(p.bias);
  if (p.preactivation.at)
    all.write(p.preactivation.at);
  else
    all.read(p.derivative_at.at);
  all.read(p.residual.at);
  all.read(p.scale_by);
  for (std::int64_t leading : {p.y.leading, p.aux().leading, p.residual.leading}) all.number(gpu::u32(leading));
  all.number(p.scale);
  return all;
}

Arguments partial_sum_arguments(const Tensor& partial, std::int64_t n) {
  GemmParams to_partial;
  to_partial.y = {gpu::pointer(partial), f32, n};
  return epilogue_arguments(to_partial);
}

EpilogueSpec::EpilogueSpec(const GemmParams& p)
    : flags(flags_of(p)), y(p.y.dtype), bias(p.bias_dtype), aux(p.aux().dtype), residual(p.residual.dtype), width(4) {
  for (const Rows& r : {p.y, p.aux(), p.residual}) {
    if (r.at) width = std::min(width, vector_width(r.at.address, r.dtype, {r.leading}));
  }
  if (p.bias) width = std::min(width, vector_width(p.bias.address, p.bias_dtype, {}));
}

EpilogueSpec EpilogueSpec::partial_sums(const Tensor& partial, std::int64_t n) {
  EpilogueSpec spec;
  spec.width = vector_width(partial.address(), f32, {n});
  return spec;
}

void add_split_k(const OpCall& call, const GemmParams& p, const Tensor& partial, std::int64_t split_k) {
  if (p.sums != nullptr) {
    *p.sums = {p, partial, split_k};
    return;
  }
  const std::int64_t results = p.m * p.n * p.matrices();
  const EpilogueSpec spec(p);
  const std::int64_t width = dividing_width(spec.width, p.n);  // the result is indexed as one flat run across rows
  gpu::Kernel(shaders::gemm_reduce, call)
      .spec(width, spec.flags, spec.y, spec.bias, spec.aux, spec.residual)
      .read(partial)
      .arguments(epilogue_arguments(p))
      .u32(results, p.n, split_k)
      .dispatch(gpu::grid(results / width, 256));
}

void reduce_and_norm(const OpCall& call, const SplitSums& sums, const NormAfter& norm) {
  const GemmParams& p = sums.params;
  const EpilogueSpec spec(p);
  const std::int64_t width = dividing_width(spec.width, p.n);
  std::int64_t norm_width = vector_width(p.y.at.address, f32, {p.y.leading});
  for (const Tensor& x : {norm.norm, norm.rows})
    norm_width = std::min(norm_width, vector_width(gpu::pointer(x).address, x.dtype(), {p.n}));
  gpu::Kernel(shaders::gemm_reduce_norm, call)
      .spec(width, spec.flags, spec.y, spec.bias, spec.aux, spec.residual)
      .spec(norm.rows.dtype(), norm.norm.dtype(), norm_width)
      .read(sums.partial)
      .arguments(epilogue_arguments(p))
      .read(norm.norm)
      .write(norm.rows)
      .write(norm.factor)
      .u32(p.m * p.n, p.n, sums.splits)
      .f32(static_cast<float>(norm.eps))
      .dispatch(gpu::grid(p.m));
}

}  // namespace etna::gemm
