#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

// quantized_linear for up to eight rows of x: shaders/quantized/quantized_linear.comp, or quantized_dot.comp if the
// device has integer dot products and all weights are in block formats.
namespace etna::quantized {
namespace {

constexpr std::uint32_t kGpuRowsNone = 99;
constexpr std::int64_t kGpuRowsChunk = 16, kUnit = 64;  ///< elements that the kernels decode at once
/// Up to so many rows, matmuls quantize their results to bytes for the next one. With more, workgroups of 16 columns do
/// not fit in registers.
constexpr std::int64_t kMostInBytes = 2;

std::uint32_t dtype_or_none(const Tensor& x) { return x.defined() ? gpu::u32(x.dtype()) : kGpuRowsNone; }

/// The vector width in elements for loads of x and of the norm's weight.
std::uint32_t gpu_rows_load_width(const Tensor& x, const Tensor& norm, std::int64_t k) {
  for (std::uint32_t width : {4u, 2u}) {
    const auto fits = [&](const Tensor& t) {
      return !t.defined() || gpu::pointer(t).address % (width * item_size(t.dtype())) == 0;
    };
    if (k % width == 0 && fits(x) && fits(norm)) return width;
  }
  return 1;
}

/// How a weight's rows are distributed.
struct GpuRowsTiling {
  std::int64_t threads;   ///< threads of a set; they split k
  std::int64_t rows;      ///< rows of a weight per set
  std::int64_t chunks;    ///< chunks of each row that a thread loads before it multiplies
  std::int64_t sets = 1;  ///< sets per workgroup
};

/// The fewest threads of a workgroup: a whole subgroup.
std::int64_t least_threads(const gpu::Capabilities& can) { return std::max<std::int64_t>(32, can.subgroup_size); }

/// Rounds a number of threads up to whole subgroups. @param most a multiple of every subgroup size
std::int64_t whole_subgroups(std::int64_t threads, std::int64_t most, const gpu::Capabilities& can) {
  const std::int64_t least = least_threads(can);
  return std::clamp((threads + least - 1) / least * least, least, std::max(least, most));
}

/// The number of threads that split k: at most `most`, in rounds of `chunks_per_thread` chunks each, so that few
/// threads idle in the last round.
std::int64_t threads_for(std::int64_t k, std::int64_t chunks_per_thread, std::int64_t most,
                         const gpu::Capabilities& can) {
  const std::int64_t chunks = std::max<std::int64_t>(1, (k + kGpuRowsChunk - 1) / kGpuRowsChunk),
                     rounds = (chunks + most - 1) / most;
  const std::int64_t threads = (chunks + rounds * chunks_per_thread - 1) / (rounds * chunks_per_thread);
  return whole_subgroups(threads, most, can);
}

/// For quantized_linear.comp. More rows per set, if there are enough to fill the device anyway; quants are floats in
/// registers, which limits the rows of formats that are slow to decode. Tuned on an H200.
GpuRowsTiling tiling_of_floats(std::int64_t n, std::int64_t k, std::int64_t x_rows, bool plain, bool gate,
                               const gpu::Capabilities& can) {
  const std::int64_t compute_units = can.compute_units;
  if (x_rows == 1 && plain && n / 8 >= 4 * compute_units) return {threads_for(k, 2, 128, can), 8, 1};
  const std::int64_t chunks = x_rows <= 2 ? 2 : 1, threads = threads_for(k, chunks, 128, can);
  if (gate && x_rows > 2) return {threads, 1, chunks};
  if (x_rows == 1 && plain && n / 4 >= 3 * compute_units) return {threads, 4, chunks};
  return {threads, n / 2 >= 2 * compute_units ? 2 : 1, chunks};
}

/// For the loop of quantized_linear.comp over aligned f16 or bf16, whose chunks have eight elements. Tuned on an H200.
GpuRowsTiling tiling_of_16_bits(std::int64_t n, std::int64_t k, std::int64_t x_rows, bool gate,
                                const gpu::Capabilities& can) {
  const std::int64_t eights = k / 8;
  if (x_rows == 1 && n / 4 >= 8 * static_cast<std::int64_t>(can.compute_units)) return {least_threads(can), 2, 2};
  const std::int64_t threads = whole_subgroups(eights / 2, 256, can);
  return {threads, x_rows <= 2 && !gate ? 2 : 1, x_rows <= 2 && eights >= 2 * threads ? 2 : 1};
}

/// For quantized_dot.comp. Tuned on an H200.
GpuRowsTiling tiling_of_bytes(std::int64_t k, std::int64_t x_rows, bool gate, const gpu::Capabilities& can) {
  const std::int64_t threads = whole_subgroups(k / kUnit, 128, can);
  return {threads, x_rows <= 2 && !gate ? 2 : 1, 1};
}

/// The same for a workgroup that computes as many results as share a scale.
GpuRowsTiling tiling_of_quantized(std::int64_t x_rows, bool gate, const gpu::Capabilities& can) {
  const std::int64_t threads = least_threads(can);
  const auto most = static_cast<std::int64_t>(std::min(can.max_workgroup_size, can.max_subgroups * can.subgroup_size));
  std::int64_t rows = gate && x_rows <= 2 ? 2 : 1;
  while (kActivationBlock / rows * threads > most) rows *= 2;
  return {threads, rows, 1, kActivationBlock / rows};
}

/// Whether quantized_dot.comp supports a call.
bool supports_bytes(Device device, const LinearAttrs& a, const std::array<BlockMatrix, kMostWeights>& w,
                    std::int64_t k) {
  if (k == 0 || k % kUnit != 0 || !multiplies_bytes(device)) return false;
  for (int i = 0; i < a.weights; ++i)
    if (a.block_format(i).elements == 1) return false;
  if (a.gate != Activation::none && (w[0].format != w[1].format || w[0].aligned != w[1].aligned)) return false;
  return true;
}

/// @param gate undefined, or what heads as long as `norm` are multiplied by once they are normed
void enqueue_quantizing(const OpCall& call, const Tensor& x, const Tensor& norm, const Tensor& y, std::int64_t rows,
                        std::int64_t k, const Tensor& gate = {}, double eps = 0) {
  const auto [gates, pitch] =
      gate.defined() ? recurrent::pitched(gate.reshape({rows, 1, k})) : recurrent::PitchedRows{};
  const std::int64_t head = gate.defined() ? norm.size(0) : 0;
  const bool by_fours = pitch % 4 == 0 && gates.defined() && gates.address() % (4 * item_size(gates.dtype())) == 0;
  gpu::Kernel(shaders::quantize_activations, call)
      .spec(gpu::u32(x.dtype()), gpu_rows_load_width(x, norm, k), dtype_or_none(norm), head, by_fours ? 4 : 1)
      .read(x)
      .read(norm)
      .write(y)
      .read(gates)
      .u32(rows, k, pitch)
      .f32(static_cast<float>(eps))
      .dispatch({gpu::u32((k / 8 + 127) / 128), gpu::u32(rows), 1u});
}

std::array<BlockMatrix, kMostWeights> matrices(const OpCall& call, const LinearAttrs& a, std::int64_t k) {
  std::array<BlockMatrix, kMostWeights> w;
  for (int i = 0; i < kMostWeights; ++i) {
    auto& own = w[static_cast<std::size_t>(i)];
    if (i < a.weights) {
      own = block_matrix(a.block_format(i), call.in[static_cast<std::size_t>(kBlocks + i)], a.rows[i], k);
      continue;
    }
    own = w[0];
    own.rows = 0;
    own.at = {};
  }
  return w;
}

/// One launch of either kernel. For activations in bytes, `x` is ActivationRows::data.
struct RowsLaunch {
  const LinearAttrs& attrs;
  const std::array<BlockMatrix, kMostWeights>& weights;
  Tensor x, y, bias, norm, residual;
  std::uint32_t x_width = 1;
  std::int64_t x_rows = 0, k = 0;
  bool normed = false;       ///< results are divided by the root mean square of x
  Tensor quantized = {};     ///< the results in bytes, times the next norm's weight `norm`
  DType dtype = DType::f32;  ///< of y, and of x if it is not in bytes

  /// Whether the rows of all weights are aligned to four bytes.
  bool rows_are_aligned_to_u32() const {
    return std::all_of(weights.begin(), weights.begin() + attrs.weights,
                       [](const BlockMatrix& w) { return (w.at.address | w.row_bytes) % 4 == 0; });
  }

  /// The points of grids, if a weight has them.
  Pointer points() const {
    for (const BlockMatrix& weight : weights)
      if (const Pointer found = weight.points(y.device())) return found;
    return {};
  }

  void enqueue(const OpCall& call, const gpu::Shader& shader, const GpuRowsTiling& tiling, bool subgroups) const {
    const LinearAttrs& a = attrs;
    const auto& w = weights;
    const gpu::Capabilities& can = gpu::capabilities(y.device());
    const bool gate = a.gate != Activation::none, bytes = &shader == &shaders::quantized_dot;
    const std::int64_t own = tiling.rows * tiling.sets, threads = tiling.threads * tiling.sets;
    std::int64_t groups = 0;
    for (int i = 0; i < (gate ? 1 : a.weights); ++i) groups += (a.rows[i] + own - 1) / own;
    const std::int64_t parts = subgroups ? threads / std::min<std::int64_t>(8, can.subgroup_size) : threads;
    gpu::Kernel kernel(shader, call);
    kernel.on(y.device())
        .spec(threads, tiling.rows,
              x_rows <= 2   ? x_rows
              : x_rows <= 4 ? 4
                            : 8)
        .spec(w[0].format, w[1].format, w[2].format, w[3].format)
        .spec(w[0].aligned, w[1].aligned, w[2].aligned, w[3].aligned)
        .spec(gpu::u32(dtype), x_width,
              !normed ? kGpuRowsNone
              : bytes ? gpu::u32(f32)
                      : dtype_or_none(norm),
              dtype_or_none(bias))
        .spec(dtype_or_none(residual), gpu::u32(a.gate), gpu::u32(parts), gpu::u32(tiling.chunks))
        .spec(tiling.sets, std::bit_cast<std::uint32_t>(normed ? static_cast<float>(a.eps) : 0.0f));
    if (bytes)
      kernel.spec(quantized.defined(), quantized.defined() ? dtype_or_none(norm) : kGpuRowsNone,
                  rows_are_aligned_to_u32());
    kernel.read(x).write(y).read(bias).read(norm).read(residual);
    for (const BlockMatrix& weight : w) kernel.read(weight.at);
    kernel.write(quantized).read(points()).u32(x_rows, k);
    for (const BlockMatrix& weight : w) kernel.u32(weight.rows);
    for (const BlockMatrix& weight : w) kernel.u32(weight.row_bytes);
    kernel.dispatch(gpu::grid(groups));
  }
};

Tensor dense(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

bool has_subgroups(const gpu::Capabilities& can) { return can.subgroup_arithmetic && overrides().subgroups; }

}  // namespace

bool linear_rows(const OpCall& call, std::span<const Tensor> out) {
  const auto a = call.as<LinearAttrs>();
  const Tensor& given = call.in[kX];
  const std::int64_t k = columns_of_x(given, a), rows = out[0].numel() / out[0].size(-1);
  const std::array<BlockMatrix, kMostWeights> w = matrices(call, a, k);
  const gpu::Capabilities& can = gpu::capabilities(out[0].device());
  const std::int64_t x_rows = rows <= 2 ? rows : rows <= 4 ? 4 : 8;
  const bool gate = a.gate != Activation::none, subgroups = has_subgroups(can);
  const bool bytes = supports_bytes(out[0].device(), a, w, k);
  if (!bytes && (a.in_bytes || a.next)) return false;
  // The kernels use one dtype for x and y.
  const bool same = out[0].dtype() == given.dtype() || a.in_bytes;
  if (a.in_bytes && out[0].dtype() != f32) return false;
  const Tensor x = dense(same ? given : given.to(f32));
  const Tensor y = same ? out[0] : empty(out[0].shape(), {f32, out[0].device()});
  const Tensor norm = dense(call.in[kNorm]);
  RowsLaunch launch{a, w, x, y, dense(call.in[kBias]), norm, dense(call.in[kResidual])};
  launch.x_rows = rows;
  launch.k = k;
  launch.normed = a.normed || (norm.defined() && k > 0);
  if (bytes) {
    if (!a.in_bytes) {
      launch.dtype = x.dtype();
      launch.x_width = gpu_rows_load_width(x, norm, k);
      launch.x = empty({activation_bytes(rows * k)}, {u8, x.device()});
      enqueue_quantizing(call, x, norm, launch.x, rows, k);
    } else if (gpu::pointer(x).address % 16 != 0) {
      launch.x = x.clone();
    }
    launch.norm = a.next ? dense(call.in[kNextNorm]) : Tensor();
    if (a.next) launch.quantized = out[1];
    launch.enqueue(call, shaders::quantized_dot,
                   a.next ? tiling_of_quantized(x_rows, gate, can) : tiling_of_bytes(k, x_rows, gate, can), true);
  } else {
    launch.dtype = x.dtype();
    launch.x_width = gpu_rows_load_width(x, norm, k);
    bool plain = true, sixteen_bits = true;  // sixteen_bits: is_wide() in the shader
    for (std::size_t i = 0; i < a.weights; ++i) {
      const quant::BlockFormat& format = a.block_format(static_cast<int>(i));
      plain = plain && format.elements == 1;
      sixteen_bits = sixteen_bits && w[i].aligned >= 16 && w[i].format == w[0].format && w[i].aligned == w[0].aligned &&
                     (format.name == "F16" || format.name == "BF16");
    }
    const GpuRowsTiling tiling = sixteen_bits ? tiling_of_16_bits(a.columns(), k, x_rows, gate, can)
                                              : tiling_of_floats(a.columns(), k, x_rows, plain, gate, can);
    launch.enqueue(call, subgroups ? shaders::quantized_linear : shaders::quantized_linear_shared, tiling, subgroups);
  }
  if (!same) Tensor(out[0]).copy_(y);
  return true;
}

bool multiplies_bytes(Device device) {
  const gpu::Capabilities& can = gpu::capabilities(device);
  return has_subgroups(can) && can.packed_dot && overrides().quantized_activations;
}

void quantize_to_bytes(const OpCall& call, const Tensor& x, const Tensor& norm, const Tensor& y, const Tensor& gate,
                       double eps) {
  const std::int64_t k = x.size(-1);
  enqueue_quantizing(call, x.contiguous(), dense(norm), y, x.numel() / k, k, gate, eps);
}

namespace {

bool takes_bytes(Device device, std::span<const QuantizedTensor> weights, bool gate) {
  if (!multiplies_bytes(device)) return false;
  for (const QuantizedTensor& w : weights)
    if (w.format().elements == 1 || w.size(1) % kUnit != 0) return false;
  if (!gate) return true;
  const auto matrix = [](const QuantizedTensor& w) {
    return block_matrix(w.format(), w.blocks(), w.size(0), w.size(1));
  };
  return weights.size() == 2 && &weights[0].format() == &weights[1].format() &&
         matrix(weights[0]).aligned == matrix(weights[1]).aligned;
}

/// The 16-bit dtype in which 3 to 32 rows are passed on Hopper GPUs, and 9 to 32 rows on all others with matrix units.
std::optional<DType> sixteen_bit_dtype(Device device, std::int64_t rows, std::span<const QuantizedTensor> weights) {
  if (rows <= kMostInBytes || rows > kMostQuantized) return {};
  std::vector<const quant::BlockFormat*> formats;
  for (const QuantizedTensor& w : weights) {
    if (!has_gpu_kernel(w.format(), w.size(1))) return {};
    formats.push_back(&w.format());
  }
  const DType dtype = gemm_dtype(device, rows * weights[0].size(1), formats);
  if (dtype == f32) return {};
  for (const QuantizedTensor& w : weights) {
    const BlockMatrix matrix = block_matrix(w.format(), w.blocks(), w.size(0), w.size(1));
    if (rows <= kMostRows && !has_skinny_gemm(device, dtype, matrix)) return {};
  }
  return dtype;
}

}  // namespace

std::optional<DType> activations_dtype(Device device, std::int64_t rows, std::span<const QuantizedTensor> weights,
                                       bool gate) {
  if (device.is_cpu() || weights.empty() || !gpu::runs_kernels(device)) return {};
  for (const QuantizedTensor& w : weights)
    if (!w.defined() || w.shape().rank() != 2 || w.size(1) == 0) return {};
  if (rows <= kMostInBytes) return takes_bytes(device, weights, gate) ? std::optional<DType>(i8) : std::nullopt;
  return sixteen_bit_dtype(device, rows, weights);
}

}  // namespace etna::quantized
