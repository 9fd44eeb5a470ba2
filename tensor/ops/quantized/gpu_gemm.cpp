#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <vector>

#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm.h>
#include <etna/tensor/ops/quantized/internal/gpu.h>

// quantized_linear for many rows of x (a prompt): the weights are decoded to x's dtype once and multiplied by the gemm
// kernels. From some hundred rows on, writing and reading the decoded weights takes a fraction of the gemm's time. The
// weights of a call are decoded into consecutive memory, so that one gemm takes all of them.
//
// On matrix units, f32 activations are multiplied with weights of lower precision in f16 or bf16, with f32 sums. With
// f16 weights, x is multiplied by a power of two against overflow; with all others, the gemm is in bf16, whose range is
// that of f32. Activations that are multiplied with F32 weights stay f32.
namespace etna::quantized {
namespace {

constexpr std::int64_t kMostLargest = 256;  ///< at most so many partial maxima in narrow_scaled.comp

/// Weights of one format in consecutive memory.
struct Run {
  const quant::BlockFormat* format;
  Tensor blocks;
  std::int64_t rows;

  /// Whether a weight directly follows this run in memory.
  bool goes_on_with(const quant::BlockFormat& next, const Tensor& next_blocks) const {
    return format == &next && next.tail == 0 && blocks.storage() == next_blocks.storage() &&
           blocks.offset() + blocks.numel() == next_blocks.offset();
  }
  void append(const Tensor& next_blocks, std::int64_t next_rows) {
    blocks = detail::make_view(blocks.storage(), blocks.device(), u8, {blocks.numel() + next_blocks.numel()}, {1},
                               blocks.offset());
    rows += next_rows;
  }
};

/// The weights of a call in the fewest possible runs.
std::vector<Run> runs_of(const OpCall& call, const LinearAttrs& a) {
  std::vector<Run> runs;
  for (int i = 0; i < a.weights; ++i) {
    if (a.rows[i] == 0) continue;
    const Tensor& blocks = call.in[static_cast<std::size_t>(kBlocks + i)];
    if (!runs.empty() && runs.back().goes_on_with(a.block_format(i), blocks))
      runs.back().append(blocks, a.rows[i]);
    else
      runs.push_back({&a.block_format(i), blocks, a.rows[i]});
  }
  return runs;
}

/// A view of unquantized weights as their own decoded matrix; undefined if their dtype is not the gemm's, or they are
/// not aligned.
Tensor in_place(const Run& run, std::int64_t k, DType dtype) {
  const std::int64_t size = static_cast<std::int64_t>(item_size(dtype)), at = run.blocks.offset();
  if (run.format->name != (dtype == f32 ? "F32" : dtype == f16 ? "F16" : "BF16") || at % size != 0) return {};
  return detail::make_view(run.blocks.storage(), run.blocks.device(), dtype, {run.rows, k}, {k, 1}, at / size);
}

std::uint32_t gpu_gemm_load_width(std::initializer_list<Tensor> all, std::int64_t columns) {
  for (std::uint32_t width : {4u, 2u}) {
    bool fits = columns % width == 0;
    for (const Tensor& x : all)
      fits = fits && (!x.defined() || gpu::pointer(x).address % (width * item_size(x.dtype())) == 0);
    if (fits) return width;
  }
  return 1;
}

/// Applies the norm and rounds to f16 or bf16 in one dispatch. @param x f32
void normed(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, const Rows& y) {
  gpu::Kernel(shaders::normed_rows, call)
      .spec(y.x.dtype(), norm.dtype(), gpu_gemm_load_width({x, norm, y.x}, x.size(1)))
      .read(x)
      .read(norm)
      .write(y.x)
      .write(y.factor)
      .u32(x.size(0), x.size(1))
      .f32(static_cast<float>(eps))
      .dispatch(gpu::grid(x.size(0)));
}

std::uint32_t scaled_width(const Tensor& x) {
  const std::uint64_t at = gpu::pointer(x).address;
  return at % 16 == 0 ? 4 : at % 8 == 0 ? 2 : 1;
}

/// Rounds f32 rows to f16 after scaling them by a power of two against overflow. @param largest maxima of parts of x,
/// as bits
void narrowed(const OpCall& call, const Tensor& x, const Tensor& largest, const Rows& y) {
  gpu::Kernel(shaders::narrow_scaled, call)
      .spec(scaled_width(x))
      .read(x)
      .write(y.x)
      .read(largest)
      .write(y.factor)
      .u32(x.numel(), largest.numel())
      .dispatch(gpu::grid(std::clamp<std::int64_t>((x.numel() + 4095) / 4096, 1, 4096)));
}

/// The same without `largest`.
void scaled(const OpCall& call, const Tensor& x, const Rows& y) {
  const std::int64_t groups = std::clamp<std::int64_t>((x.numel() + 4095) / 4096, 1, kMostLargest);
  const Tensor largest = empty({groups}, {i32, x.device()});
  gpu::Kernel(shaders::narrow_scaled_largest, call)
      .spec(scaled_width(x))
      .read(x)
      .read(Pointer())
      .write(largest)
      .read(Pointer())
      .u32(x.numel(), groups)
      .dispatch(gpu::grid(groups));
  narrowed(call, x, largest, y);
}

Rows gpu_gemm_prepared(const OpCall& call, const Tensor& x, DType dtype) {
  const Tensor& norm = call.in[kNorm];
  const double eps = call.as<LinearAttrs>().eps;
  if (x.dtype() == f32 && dtype != f32 && x.numel() > 0) return rows_in_16_bits(call, x, norm, eps, dtype);
  return {norm.defined() && x.numel() > 0 ? rms_norm(x, norm.to(x.dtype()), eps).to(dtype) : x.to(dtype)};
}

}  // namespace

DType gemm_dtype(Device device, std::int64_t elements, std::span<const quant::BlockFormat* const> formats) {
  if (!overrides().sixteen_bits && !gpu::capabilities(device).cooperative_matrix) return f32;
  bool all_f16 = elements < std::int64_t{1} << 31;
  for (const quant::BlockFormat* format : formats) {
    if (format->name == "F32") return f32;
    all_f16 = all_f16 && format->name == "F16";
  }
  return all_f16 ? f16 : bf16;
}

Rows rows_in_16_bits(const OpCall& call, const Tensor& given, const Tensor& norm, double eps, DType dtype) {
  const Tensor x = given.to(f32).contiguous();
  Rows y{empty(x.shape(), {dtype, x.device()})};
  if (dtype == f16) y.factor = empty({1}, {f32, x.device()});
  rows_in_16_bits(call, x, norm, eps, y);
  return y;
}

void rows_in_16_bits(const OpCall& call, const Tensor& x, const Tensor& norm, double eps, const Rows& y) {
  const bool bounded = norm.defined() && x.numel() < std::int64_t{1} << 31;
  if (bounded) return normed(call, x, norm.contiguous(), eps, y);
  const Tensor rows = norm.defined() ? rms_norm(x, norm.to(f32), eps) : x;
  if (y.x.dtype() == f16) return scaled(call, rows, y);
  Tensor(y.x).copy_(rows);
}

void apply_gate(const OpCall& call, Activation gate, const Tensor& gate_and_up, const Tensor& residual,
                const Tensor& y) {
  const std::int64_t n = y.size(1), quads = (n + 3) / 4, most = std::max<std::int64_t>(1, (std::int64_t{1} << 30) / n);
  for (std::int64_t first = 0; first < y.size(0); first += most) {
    const std::int64_t rows = std::min(most, y.size(0) - first);
    const auto slice = [&](const Tensor& t) { return t.defined() ? t.slice(0, first, first + rows) : t; };
    const Tensor left = slice(gate_and_up), added = slice(residual), to = slice(y);
    gpu::Kernel(shaders::quantized_gate, call)
        .spec(gpu::u32(gate), gpu::u32(left.dtype()), added.defined() ? gpu::u32(added.dtype()) : 99u,
              gpu_gemm_load_width({left, added, to}, n))
        .spec(to.dtype())
        .read(left)
        .read(added)
        .write(to)
        .u32(rows, n)
        .dispatch(gpu::grid(rows * quads, 256));
  }
}

bool multiply_rows(const OpCall& call, const LinearAttrs& a, const Rows& rows, const gemm::Epilogue& behind,
                   const Tensor& y) {
  const std::int64_t k = rows.x.size(1), all = std::accumulate(a.rows, a.rows + kMostWeights, std::int64_t{0});
  const std::vector<Run> runs = runs_of(call, a);

  // The epilogue of columns [from, to) of the result.
  const auto epilogue = [&](std::int64_t from, std::int64_t to) {
    gemm::Epilogue e{.scale_by = rows.factor};
    if (behind.bias.defined()) e.bias = behind.bias.slice(0, from, to);
    if (behind.residual.defined()) e.residual = behind.residual.slice(1, from, to);
    if (to - from == all) e.sums = behind.sums;
    return e;
  };
  // One gemm with w [to - from, K].
  const auto multiply = [&](const Tensor& w, std::int64_t from, std::int64_t to) {
    Tensor part = y.slice(1, from, to);
    return gemm::on_gpu(call, rows.x, w.t(), epilogue(from, to), part);
  };
  // Decoded rows are collected until they suffice for a gemm. The bound keeps the output matrix of a large vocabulary
  // from doubling the memory of a model.
  const std::int64_t room =
      std::min(all, std::max<std::int64_t>(1, overrides().decoded_at_once / std::max<std::int64_t>(1, k)));
  Tensor scratch;
  std::int64_t from = 0, held = 0;
  const auto flush = [&] {
    const bool done = held == 0 || multiply(scratch.slice(0, 0, held), from, from + held);
    from += held;
    held = 0;
    return done;
  };
  for (const Run& run : runs) {
    const BlockMatrix w = block_matrix(*run.format, run.blocks, run.rows, k);
    if (has_skinny_gemm(rows.x, w)) {
      if (!flush()) return false;
      skinny_gemm(call, rows.x, w, Activation::none, epilogue(from, from + run.rows),
                  y.slice(1, from, from + run.rows));
      from += run.rows;
      continue;
    }
    if (run.format->elements > 1 && has_block_gemm(rows.x, w)) {
      if (!flush()) return false;
      gemm_by_blocks(call, rows.x, w, epilogue(from, from + run.rows), y.slice(1, from, from + run.rows));
      from += run.rows;
      continue;
    }
    if (const Tensor in = in_place(run, k, rows.x.dtype()); in.defined()) {
      if (!flush() || !multiply(in, from, from + run.rows)) return false;
      from += run.rows;
      continue;
    }
    for (std::int64_t row = 0; row < run.rows;) {
      if (held == room && !flush()) return false;
      if (!scratch.defined()) scratch = empty({room, k}, {rows.x.dtype(), y.device()});
      BlockMatrix some = w.from(row);
      some.rows = std::min(room - held, some.rows);
      decode_rows(call, some, w.tail(), scratch.slice(0, held, held + some.rows));
      row += some.rows;
      held += some.rows;
    }
  }
  return flush();
}

bool linear_of_rows(const OpCall& call, const LinearAttrs& a, const Rows& rows, bool wide, const Tensor& y,
                    gemm::SplitSums* sums, Tensor* largest) {
  const std::int64_t m = y.size(0);
  const Tensor& bias = call.in[kBias];
  Tensor residual = call.in[kResidual];
  if (residual.defined()) residual = residual.contiguous().reshape(y.shape());
  if (a.gate == Activation::none)
    return multiply_rows(call, a, rows, {.bias = bias, .residual = residual, .sums = sums}, y);
  if (const std::vector<Run> runs = runs_of(call, a); runs.size() == 1) {
    const BlockMatrix both = block_matrix(*runs[0].format, runs[0].blocks, runs[0].rows, rows.x.size(1));
    if (has_skinny_gemm(rows.x, both, a.gate)) {
      skinny_gemm(call, rows.x, both, a.gate, {.scale_by = rows.factor, .bias = bias, .residual = residual}, y,
                  largest);
      return true;
    }
  }
  const Tensor products = empty({m, 2 * a.rows[0]}, {wide ? f32 : y.dtype(), y.device()});
  if (!multiply_rows(call, a, rows, {.bias = bias}, products)) return false;
  apply_gate(call, a.gate, products, residual, y);
  return true;
}

bool linear_by_gemm(const OpCall& call, std::span<const Tensor> out) {
  const auto a = call.as<LinearAttrs>();
  const Tensor &x = call.in[kX], &factor = call.in[kFactor];
  const std::int64_t k = x.size(-1), m = out[0].numel() / out[0].size(-1);
  const Tensor given = x.contiguous().reshape({m, k}), y = out[0].reshape({m, a.columns()});
  Rows rows{given, factor};
  if (!factor.defined()) {
    std::vector<const quant::BlockFormat*> formats;
    for (int i = 0; i < a.weights; ++i)
      if (a.rows[i] != 0) formats.push_back(&a.block_format(i));
    const DType dtype = given.dtype() == f32 ? gemm_dtype(y.device(), given.numel(), formats) : given.dtype();
    rows = gpu_gemm_prepared(call, given, dtype);
  }
  const Tensor& next_norm = call.in[kNextNorm];
  const bool wide = given.dtype() == f32 || a.dtype == f32;
  gemm::SplitSums sums;
  Tensor largest;
  if (!linear_of_rows(call, a, rows, wide, y, a.next && next_norm.defined() ? &sums : nullptr,
                      a.next == f16 && !next_norm.defined() ? &largest : nullptr))
    return false;
  if (!a.next) return true;
  const Rows next{out[1].reshape(y.shape()), a.next == f16 ? out[2] : Tensor()};
  if (largest.defined() && largest.numel() <= kMostLargest)
    narrowed(call, y, largest, next);
  else if (sums.partial.defined())
    gemm::reduce_and_norm(call, sums, {next_norm.contiguous(), next.x, next.factor, a.next_eps});
  else
    rows_in_16_bits(call, y, next_norm.defined() ? next_norm.contiguous() : Tensor(), a.next_eps, next);
  return true;
}

bool quantize_activations_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor &x = call.in[kToQuantize], &norm = call.in[kQuantizeNorm];
  const auto a = call.as<QuantizeAttrs>();
  if (x.dtype() == f64 || (norm.defined() && norm.dtype() == f64)) return false;
  if (x.numel() == 0) {
    if (a.dtype == f16) out[1].fill_(1);
    return true;
  }
  const std::int64_t k = x.size(-1), rows = x.numel() / k;
  if (a.dtype == i8) {
    if (rows > 65535) return false;
    quantize_to_bytes(call, x, norm, out[0], call.in.size() > kQuantizeGate ? call.in[kQuantizeGate] : Tensor(), a.eps);
  } else {
    rows_in_16_bits(call, x.to(f32).contiguous().reshape({rows, k}), norm, a.eps,
                    {out[0].reshape({rows, k}), a.dtype == f16 ? out[1] : Tensor()});
  }
  return true;
}

bool linear_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<LinearAttrs>();
  if (a.dtype == f64) return false;
  for (int i = kX; i < kBlocks; ++i) {
    const Tensor& x = call.in[static_cast<std::size_t>(i)];
    if (x.defined() && x.dtype() == f64) return false;
  }
  const Tensor& x = call.in[kX];
  const std::int64_t k = columns_of_x(x, a);
  for (int i = 0; i < a.weights; ++i)
    if (!has_gpu_kernel(a.block_format(i), k)) return false;
  if (out[0].numel() == 0) {
    if (a.next == f16) out[2].fill_(1);
    return true;
  }
  const std::int64_t rows = out[0].numel() / out[0].size(-1);
  if (a.in_bytes || a.next == i8) return rows <= kMostRows && linear_rows(call, out);
  bool by_gemm = rows > kMostRows || call.in[kFactor].defined() || a.next.has_value();
  if (!by_gemm && overrides().quantized_activations) {
    // Few rows are given in the dtype of the matrix units if the device has a kernel for them.
    std::vector<QuantizedTensor> weights;
    for (int i = 0; i < a.weights; ++i)
      weights.emplace_back(a.block_format(i), Shape{a.rows[i], k}, call.in[static_cast<std::size_t>(kBlocks + i)]);
    const std::optional<DType> read = activations_dtype(x.device(), rows, weights);
    by_gemm = read && *read != i8 && (x.dtype() == f32 || x.dtype() == *read);
  }
  return by_gemm ? linear_by_gemm(call, out) : linear_rows(call, out);
}

DType operand_dtype(Device device, std::int64_t rows, DType dtype, const QuantizedTensor& weight, bool fits) {
  if (device.is_cpu() || rows <= kMostRows || dtype == f64) return dtype;
  const quant::BlockFormat* format = &weight.format();
  const DType product = gemm_dtype(device, rows * weight.size(1), std::span(&format, 1));
  // Rows that may not fit in f16 need a factor against overflow.
  return product == f16 && dtype != f16 && !fits ? f32 : product;
}

}  // namespace etna::quantized
