#include <algorithm>
#include <array>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>

// Skinny gemms (up to 32 rows of x) on Hopper GPUs: shaders/sm90/skinny_gemm.cuh.
namespace etna::quantized {
namespace {

constexpr std::int64_t kMostRowsOfX = 32, kTileRows = 16, kWarps = 8;
constexpr std::int64_t kSharedBytes = 232448 - 1024;  ///< shared memory of a multiprocessor, minus the reserved part

/// A format's kernel, and how its warps read a weight.
struct Format {
  std::uint32_t number;  ///< the format's number in shaders/lib/quant_blocks.glsl
  DType x;
  const gpu::CubinKernel* kernel;
  std::int64_t step, bytes;  ///< elements, and bytes of a row of so many elements in shared memory
  std::int64_t most_stages;  ///< of a warp's ring; more do not pay off
};

const Format* format_of(std::uint32_t number) {
  using namespace cubins;
  static const std::array<Format, 5> formats{{{1, f16, &cubin_skinny_f16, 64, 128, 6},
                                              {30, bf16, &cubin_skinny_bf16, 64, 128, 6},
                                              {12, bf16, &cubin_skinny_q4_k, 256, 144, 2},
                                              {14, bf16, &cubin_skinny_q6_k, 256, 224, 2},
                                              {8, bf16, &cubin_skinny_q8_0, 256, 272, 2}}};
  for (const Format& f : formats)
    if (f.number == number) return &f;
  return nullptr;
}

/// How the work is distributed over blocks and their warps.
struct GpuSkinnyTiling {
  std::int64_t groups = 1, split_k = 1;  ///< of blocks
  std::int64_t k_warps = 1;              ///< warps of a block that split k
  std::int64_t stages = 2;
  std::int64_t shared_bytes = 0;
};

std::int64_t x_bytes(std::int64_t elements) { return elements * kMostRowsOfX * 2; }
std::int64_t stage_bytes(const Format& f) { return kWarps * kTileRows * f.bytes; }

/// One block per multiprocessor. If w has too few rows for that, k is split: among the warps of a block if the result
/// is needed at once, else among blocks (split-K), whose sums are added by the op that follows.
GpuSkinnyTiling tiling_of(const Format& f, std::int64_t n, std::int64_t k, bool gate, bool may_split,
                          std::int64_t units) {
  const std::int64_t tiles = ceil_div(n, gate ? kTileRows / 2 : kTileRows), steps = k / f.step;
  const auto fits = [&](std::int64_t split) {
    return x_bytes(ceil_div(steps, split) * f.step) + 2 * stage_bytes(f) <= kSharedBytes;
  };
  GpuSkinnyTiling t;
  if (!gate && (may_split || !fits(1))) {
    t.split_k = std::clamp<std::int64_t>(units / ceil_div(tiles, kWarps), 1, steps);
    while (t.split_k < steps && !fits(t.split_k)) ++t.split_k;
    t.split_k = ceil_div(steps, ceil_div(steps, t.split_k));
  } else {
    while (t.k_warps < kWarps && 2 * t.k_warps <= steps && ceil_div(tiles * 2 * t.k_warps, kWarps) <= units)
      t.k_warps *= 2;
  }
  const std::int64_t x = x_bytes(ceil_div(steps, t.split_k) * f.step);
  t.stages = std::clamp<std::int64_t>((kSharedBytes - x) / stage_bytes(f), 2, f.most_stages);
  const std::int64_t n_warps = kWarps / t.k_warps, sums = (kWarps - n_warps) * kTileRows * kMostRowsOfX * 4;
  t.groups = ceil_div(tiles, n_warps);
  if (t.k_warps == 1) t.groups = std::min(t.groups, std::max<std::int64_t>(1, units / t.split_k));
  t.shared_bytes = std::max(x + t.stages * stage_bytes(f), sums);
  return t;
}

}  // namespace

bool has_skinny_gemm(Device device, DType x, const BlockMatrix& w) {
  const Format* f = format_of(w.format);
  if (gpu::capabilities(device).cubin != 90 || f == nullptr || x != f->x || f->kernel->cubin.empty()) return false;
  if (gemm::requested_variant().value_or(gemm::KernelVariant::cubin) != gemm::KernelVariant::cubin) return false;
  // Rows must be aligned to 16 bytes.
  return w.rows > 0 && w.columns > 0 && w.columns % f->step == 0 && w.at.address % 16 == 0 && w.row_bytes % 16 == 0;
}

bool has_skinny_gemm(const Tensor& x, const BlockMatrix& w, Activation gate) {
  if (x.size(0) > kMostRowsOfX || !has_skinny_gemm(x.device(), x.dtype(), w)) return false;
  // With a gate, a block computes all of k; otherwise at least one step.
  const Format& f = *format_of(w.format);
  return gpu::pointer(x).address % 16 == 0 &&
         x_bytes(gate == Activation::none ? f.step : w.columns) + 2 * stage_bytes(f) <= kSharedBytes;
}

void skinny_gemm(const OpCall& call, const Tensor& x, const BlockMatrix& w, Activation gate, const gemm::Epilogue& e,
                 const Tensor& y, Tensor* largest) {
  const Format& f = *format_of(w.format);
  const std::int64_t k = x.size(1), n = gate == Activation::none ? w.rows : w.rows / 2;
  gemm::GemmParams p;
  p.device = y.device();
  p.m = x.size(0);
  p.n = n;
  p.k = k;
  p.dtype = x.dtype();
  p.y = {gpu::pointer(y), y.dtype(), y.strides()[0]};
  if (e.residual.defined()) p.residual = {gpu::pointer(e.residual), e.residual.dtype(), e.residual.strides()[0]};
  const Tensor bias = e.bias.defined() ? e.bias.contiguous() : e.bias;
  if (bias.defined()) {
    p.bias = gpu::pointer(bias);
    p.bias_dtype = bias.dtype();
  }
  if (e.scale_by.defined()) p.scale_by = gpu::pointer(e.scale_by);
  p.sums = e.sums;
  const auto units = static_cast<std::int64_t>(gpu::capabilities(y.device()).compute_units);
  const GpuSkinnyTiling t = tiling_of(f, n, k, gate != Activation::none, e.sums != nullptr, units);
  const std::int64_t steps = k / f.step, steps_a_split = ceil_div(steps, t.split_k);
  const bool split = t.split_k > 1;
  if (largest != nullptr) *largest = empty({t.groups}, {i32, p.device});
  const Tensor partial = split ? empty({t.split_k * p.m * n}, {f32, p.device}) : Tensor();
  const gemm::EpilogueSpec epilogue = split ? gemm::EpilogueSpec::partial_sums(partial, n) : gemm::EpilogueSpec(p);

  // hopper::SkinnyParameters
  Arguments arguments;
  arguments.read(gpu::pointer(x));
  arguments.read(w.at);
  arguments.append(split ? gemm::partial_sum_arguments(partial, n) : gemm::epilogue_arguments(p));
  const auto u32s = [&](auto... v) { (arguments.number(gpu::u32(v)), ...); };
  u32s(epilogue.flags, epilogue.y, epilogue.bias, epilogue.aux, epilogue.residual, epilogue.width);
  if (largest != nullptr)
    arguments.write(gpu::pointer(*largest));
  else
    arguments.write(Pointer());
  u32s(p.m, n, k, w.row_bytes / 16, steps, steps_a_split);
  u32s(t.k_warps, ceil_div(steps_a_split, t.k_warps), t.stages, gate);
  gpu::enqueue(p.device, {.kernel = *f.kernel,
                          .op = call.op.name,
                          .arguments = arguments,
                          .groups = {gpu::u32(t.groups), gpu::u32(t.split_k), 1},
                          .threads = kWarps * 32,
                          .shared_bytes = gpu::u32(t.shared_bytes)});
  if (split) gemm::add_split_k(call, p, partial, t.split_k);
}

}  // namespace etna::quantized
