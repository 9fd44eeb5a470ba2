#include <algorithm>
#include <array>
#include <bit>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/quantized/gpu.h>

// quantized_linear for up to eight rows of x: shaders/quantized_linear.comp, or, where the device multiplies bytes and
// all weights are in blocks, quantized_dot.comp.
namespace etna::quantized {
namespace {

constexpr std::uint32_t kNone = 99;
constexpr std::int64_t kChunk = 16, kUnit = 64;  ///< elements that the kernels decode at once

thread_local int without_subgroups = 0, without_bytes = 0;

std::uint32_t dtype_or_none(const Tensor& x) { return x.defined() ? gpu::u32(x.dtype()) : kNone; }

/// Elements per load that suit x and the norm's weight.
std::uint32_t load_width(const Tensor& x, const Tensor& norm, std::int64_t k) {
  for (std::uint32_t width : {4u, 2u}) {
    const auto fits = [&](const Tensor& t) {
      return !t.defined() || gpu::pointer(t).address % (width * item_size(t.dtype())) == 0;
    };
    if (k % width == 0 && fits(x) && fits(norm)) return width;
  }
  return 1;
}

/// How a weight's rows are dealt out.
struct Tiling {
  std::int64_t threads;  ///< of a workgroup, which share k
  std::int64_t rows;     ///< of a weight, in a workgroup
  std::int64_t chunks;   ///< that a thread loads of each row before it multiplies
};

/// Threads that share k, so that all of them take at most `most` chunks in a round, and few idle in the last round.
std::int64_t threads_for(std::int64_t k, std::int64_t chunks_per_thread, std::int64_t most) {
  const std::int64_t chunks = std::max<std::int64_t>(1, (k + kChunk - 1) / kChunk), rounds = (chunks + most - 1) / most;
  const std::int64_t threads = (chunks + rounds * chunks_per_thread - 1) / (rounds * chunks_per_thread);
  return (threads + 31) / 32 * 32;
}

/// Of quantized_linear.comp. More rows where there are enough to fill the device nevertheless; codes are floats in
/// registers, which bounds the rows of a format that takes long to decode. Tuned on an H200.
Tiling tiling_of_floats(std::int64_t n, std::int64_t k, std::int64_t x_rows, bool plain, bool gate,
                        std::int64_t compute_units) {
  if (x_rows == 1 && plain && n / 8 >= 4 * compute_units) return {threads_for(k, 2, 128), 8, 1};
  const std::int64_t chunks = x_rows <= 2 ? 2 : 1, threads = threads_for(k, chunks, 128);
  if (gate && x_rows > 2) return {threads, 1, chunks};
  if (x_rows == 1 && plain && n / 4 >= 3 * compute_units) return {threads, 4, chunks};
  return {threads, n / 2 >= 2 * compute_units ? 2 : 1, chunks};
}

/// Of the loop of quantized_linear.comp for aligned halves, whose chunks have eight elements. Tuned on an H200.
Tiling tiling_of_halves(std::int64_t n, std::int64_t k, std::int64_t x_rows, bool gate, std::int64_t compute_units) {
  const std::int64_t eights = k / 8;
  if (x_rows == 1 && n / 4 >= 8 * compute_units) return {32, 2, 2};
  const std::int64_t threads = std::clamp<std::int64_t>((eights / 2 + 31) / 32 * 32, 32, 256);
  return {threads, x_rows <= 2 && !gate ? 2 : 1, x_rows <= 2 && eights >= 4 * threads ? 2 : 1};
}

/// Of quantized_dot.comp. Tuned on an H200.
Tiling tiling_of_bytes(std::int64_t k, std::int64_t x_rows, bool gate) {
  const std::int64_t threads = std::clamp<std::int64_t>((k / kUnit + 31) / 32 * 32, 32, 128);
  return {threads, x_rows <= 2 && !gate ? 2 : 1, 1};
}

/// Whether the kernel that rounds x to bytes takes a call.
bool multiplies_bytes(const LinearAttrs& a, const std::array<BlockMatrix, kMostWeights>& w, std::int64_t k,
                      const gpu::Capabilities& can) {
  if (!can.packed_dot || k == 0 || k % kUnit != 0 || without_bytes > 0) return false;
  for (int i = 0; i < a.weights; ++i)
    if (a.block_format(i).elements == 1) return false;
  if (a.gate != Gate::none && (w[0].format != w[1].format || w[0].aligned != w[1].aligned)) return false;
  return true;
}

/// Rows of x in bytes, 32 to a scale.
struct RoundedRows {
  Tensor codes, scales;
};

RoundedRows round_rows(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, std::int64_t rows,
                       std::int64_t k) {
  const RoundedRows y{empty({rows, k}, {i8, x.device()}), empty({rows, k / 32}, {f32, x.device()})};
  const auto threads = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(k / 8))), 32, norm.defined() ? 512 : 256);
  gpu::Kernel(shaders::round_rows, call)
      .spec(threads, gpu::u32(x.dtype()), load_width(x, norm, k), dtype_or_none(norm))
      .read(x)
      .read(norm)
      .write(y.codes)
      .write(y.scales)
      .u32(k)
      .f32(static_cast<float>(eps))
      .dispatch({norm.defined() ? 1u : gpu::u32((k / 8 + threads - 1) / threads), gpu::u32(rows), 1u});
  return y;
}

}  // namespace

WithoutSubgroups::WithoutSubgroups() { ++without_subgroups; }
WithoutSubgroups::~WithoutSubgroups() { --without_subgroups; }
WithoutBytes::WithoutBytes() { ++without_bytes; }
WithoutBytes::~WithoutBytes() { --without_bytes; }

void linear_rows(const OpCall& call, const Tensor& out) {
  const auto a = call.as<LinearAttrs>();
  const std::int64_t k = call.in[kX].size(-1), x_rows = call.in[kX].numel() / std::max<std::int64_t>(k, 1);
  const std::int64_t m = k > 0 ? x_rows : out.numel() / out.size(-1);
  const auto dense = [&](LinearInput i) { return call.in[i].defined() ? call.in[i].contiguous() : Tensor(); };
  const Tensor bias = dense(kBias), norm = dense(kNorm), residual = dense(kResidual);
  // The kernels have one dtype for x and y.
  const bool same = out.dtype() == call.in[kX].dtype();
  const Tensor x = same ? dense(kX) : call.in[kX].to(f32).contiguous();
  const Tensor y = same ? out : empty(out.shape(), {f32, out.device()});
  std::array<BlockMatrix, kMostWeights> w;
  bool plain = true, halves = true;  // halves: what is_wide() of the shader asks
  for (int i = 0; i < a.weights; ++i) {
    w[static_cast<std::size_t>(i)] =
        block_matrix(a.block_format(i), call.in[static_cast<std::size_t>(kBlocks + i)], a.rows[i], k);
    const BlockMatrix& own = w[static_cast<std::size_t>(i)];
    plain = plain && a.block_format(i).elements == 1;
    halves = halves && own.aligned >= 16 && own.format == w[0].format && own.aligned == w[0].aligned &&
             (a.block_format(i).name == "F16" || a.block_format(i).name == "BF16");
  }
  for (int i = a.weights; i < kMostWeights; ++i) {
    w[static_cast<std::size_t>(i)] = w[0];
    w[static_cast<std::size_t>(i)].rows = 0;
    w[static_cast<std::size_t>(i)].at = {};
  }
  const gpu::Capabilities& can = gpu::capabilities(y.device());
  const std::int64_t rounded = m <= 2 ? m : m <= 4 ? 4 : 8;
  const bool gate = a.gate != Gate::none, subgroups = can.subgroup_arithmetic && without_subgroups == 0;
  const bool dots = subgroups && multiplies_bytes(a, w, k, can);
  const Tiling tiling = dots     ? tiling_of_bytes(k, rounded, gate)
                        : halves ? tiling_of_halves(a.columns(), k, rounded, gate, can.compute_units)
                                 : tiling_of_floats(a.columns(), k, rounded, plain, gate, can.compute_units);
  std::int64_t groups = 0;
  for (int i = 0; i < (gate ? 1 : a.weights); ++i) groups += (a.rows[i] + tiling.rows - 1) / tiling.rows;
  const std::int64_t parts = subgroups ? tiling.threads / std::min<std::int64_t>(8, can.subgroup_size) : tiling.threads;
  RoundedRows rounded_x;
  if (dots) rounded_x = round_rows(call, x, norm, a.eps, x_rows, k);
  gpu::Kernel kernel(dots        ? shaders::quantized_dot
                     : subgroups ? shaders::quantized_linear
                                 : shaders::quantized_linear_shared,
                     call);
  kernel.on(y.device())
      .spec(tiling.threads, tiling.rows, rounded)
      .spec(w[0].format, w[1].format, w[2].format, w[0].aligned, w[1].aligned, w[2].aligned)
      .spec(gpu::u32(x.dtype()), load_width(x, norm, k), k > 0 && !dots ? dtype_or_none(norm) : kNone,
            dtype_or_none(bias))
      .spec(dtype_or_none(residual), gpu::u32(a.gate), gpu::u32(parts), gpu::u32(tiling.chunks));
  if (dots)
    kernel.read(rounded_x.codes).write(y).read(bias).read(rounded_x.scales).read(residual);
  else
    kernel.read(x).write(y).read(bias).read(norm).read(residual);
  for (const BlockMatrix& weight : w) kernel.read(weight.at);
  kernel.u32(m, k);
  for (const BlockMatrix& weight : w) kernel.u32(weight.rows);
  for (const BlockMatrix& weight : w) kernel.u32(weight.row_bytes);
  kernel.f32(static_cast<float>(a.eps)).dispatch(gpu::grid(groups));
  if (!same) Tensor(out).copy_(y);
}

}  // namespace etna::quantized
