#include <algorithm>
#include <array>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/gemm.h>
#include <etna/tensor/ops/quantized/gpu.h>

// quantized_linear for many rows of x (a prompt): the weights are decoded to x's dtype once and multiplied by the gemm
// kernels. Reading and writing a decoded weight takes a fraction of the product's time from some hundred rows on. The
// weights of a call are decoded behind each other, so that one gemm takes all of them.
//
// Where there are matrix units, f32 rows meet weights of fewer digits in f16 or bf16, with sums in f32: f16 weights as
// they are, and x times a power of two, so that it does not overflow; all others in bf16, whose range is that of f32.
// Rows that meet F32 weights stay f32: what is called f32 is not rounded on the way.
namespace etna::quantized {
namespace {

/// Elements that are decoded at once at most, so that a vocabulary's matrix does not double the memory of a model.
thread_local std::int64_t decoded_at_once = 1 << 27;
thread_local int halves_everywhere = 0;

/// A plain weight of x's dtype is its own decoded matrix. Undefined where it is not that, or not aligned.
Tensor in_place(const OpCall& call, int i, std::int64_t rows, std::int64_t k, DType dtype) {
  const Tensor& blocks = call.in[static_cast<std::size_t>(kBlocks + i)];
  const std::string_view name = call.as<LinearAttrs>().block_format(i).name;
  const std::int64_t size = static_cast<std::int64_t>(item_size(dtype));
  if (name != (dtype == f32 ? "F32" : dtype == f16 ? "F16" : "BF16") || blocks.offset() % size != 0) return {};
  return detail::make_view(blocks.storage(), blocks.device(), dtype, {rows, k}, {k, 1}, blocks.offset() / size);
}

/// What x and the weights are multiplied in.
DType product_dtype(const OpCall& call, const Tensor& x) {
  const auto a = call.as<LinearAttrs>();
  const bool rounds = halves_everywhere > 0 || gpu::capabilities(x.device()).cooperative_matrix;
  if (x.dtype() != f32 || !rounds) return x.dtype();
  bool halves = x.numel() < std::int64_t{1} << 31;
  for (int i = 0; i < a.weights; ++i) {
    if (a.block_format(i).name == "F32") return f32;
    halves = halves && a.block_format(i).name == "F16";
  }
  return halves ? f16 : bf16;
}

/// Rows of x in f16, times a power of two.
struct ScaledRows {
  Tensor rows;
  Tensor factor;  ///< one f32: what undoes the power
};

ScaledRows scaled(const OpCall& call, const Tensor& x) {
  ScaledRows y{empty(x.shape(), {f16, x.device()}), empty({1}, {f32, x.device()})};
  const std::int64_t groups = std::clamp<std::int64_t>((x.numel() + 4095) / 4096, 1, 256);
  const Tensor largest = empty({groups}, {i32, x.device()});
  const auto width = static_cast<std::uint32_t>(gpu::pointer(x).address % 16 == 0  ? 4
                                                : gpu::pointer(x).address % 8 == 0 ? 2
                                                                                   : 1);
  gpu::Kernel(shaders::narrow_scaled_largest, call)
      .spec(width)
      .read(x)
      .read(Pointer())
      .write(largest)
      .read(Pointer())
      .u32(x.numel(), groups)
      .dispatch(gpu::grid(groups));
  gpu::Kernel(shaders::narrow_scaled, call)
      .spec(width)
      .read(x)
      .write(y.rows)
      .read(largest)
      .write(y.factor)
      .u32(x.numel(), groups)
      .dispatch(gpu::grid(std::clamp<std::int64_t>((x.numel() + 4095) / 4096, 1, 4096)));
  return y;
}

std::uint32_t width_for(const Tensor& halves, const Tensor& residual, const Tensor& y, std::int64_t n) {
  for (std::uint32_t width : {4u, 2u}) {
    const auto fits = [&](const Tensor& t) {
      return !t.defined() || gpu::pointer(t).address % (width * item_size(t.dtype())) == 0;
    };
    if (n % width == 0 && fits(halves) && fits(residual) && fits(y)) return width;
  }
  return 1;
}

/// y = gate(left half) ⊙ right half + residual, in slices whose elements 32 bits can number.
void apply_gate(const OpCall& call, const Tensor& halves, const Tensor& residual, const Tensor& y) {
  const std::int64_t n = y.size(1), quads = (n + 3) / 4, most = std::max<std::int64_t>(1, (std::int64_t{1} << 30) / n);
  for (std::int64_t first = 0; first < y.size(0); first += most) {
    const std::int64_t rows = std::min(most, y.size(0) - first);
    const auto slice = [&](const Tensor& t) { return t.defined() ? t.slice(0, first, first + rows) : t; };
    const Tensor left = slice(halves), added = slice(residual), to = slice(y);
    gpu::Kernel(shaders::quantized_gate, call)
        .spec(gpu::u32(call.as<LinearAttrs>().gate), gpu::u32(y.dtype()),
              added.defined() ? gpu::u32(added.dtype()) : 99u, width_for(left, added, to, n))
        .read(left)
        .read(added)
        .write(to)
        .u32(rows, n)
        .dispatch(gpu::grid(rows * quads, 256));
  }
}

}  // namespace

DecodedAtOnce::DecodedAtOnce(std::int64_t elements) : before_(decoded_at_once) { decoded_at_once = elements; }
DecodedAtOnce::~DecodedAtOnce() { decoded_at_once = before_; }
HalvesEverywhere::HalvesEverywhere() { ++halves_everywhere; }
HalvesEverywhere::~HalvesEverywhere() { --halves_everywhere; }

bool linear_by_gemm(const OpCall& call, Tensor& out) {
  const auto a = call.as<LinearAttrs>();
  const std::int64_t k = call.in[kX].size(-1), all = a.rows[0] + a.rows[1] + a.rows[2];
  const std::int64_t m = out.numel() / out.size(-1);
  Tensor x = call.in[kX].contiguous().reshape({m, k}), y = out.reshape({m, a.columns()});
  if (call.in[kNorm].defined() && k > 0) x = rms_norm(x, call.in[kNorm].to(x.dtype()), a.eps);
  const DType dtype = product_dtype(call, x);
  Tensor factor;
  if (dtype == f16 && x.dtype() == f32) {
    ScaledRows narrow = scaled(call, x);
    x = narrow.rows;
    factor = narrow.factor;
  } else {
    x = x.to(dtype);
  }
  const Tensor& bias = call.in[kBias];
  Tensor residual = call.in[kResidual];
  if (residual.defined()) residual = residual.contiguous().reshape(y.shape());
  const bool gated = a.gate != Gate::none;
  Tensor products = gated ? empty({m, all}, {y.dtype(), x.device()}) : y;

  // Columns [from, to) of the products by one gemm with w [to - from, K].
  const auto multiply = [&](const Tensor& w, std::int64_t from, std::int64_t to) {
    gemm::Epilogue e{.scale_by = factor};
    if (bias.defined()) e.bias = bias.slice(0, from, to);
    if (residual.defined() && !gated) e.residual = residual.slice(1, from, to);
    Tensor part = products.slice(1, from, to);
    return gemm::on_gpu(call, x, w.t(), e, part);
  };
  // Decoded rows wait until they are enough for a gemm, or until there are no more.
  const std::int64_t room = std::min(all, std::max<std::int64_t>(1, decoded_at_once / std::max<std::int64_t>(1, k)));
  Tensor scratch;
  std::int64_t from = 0, held = 0;
  const auto flush = [&] {
    const bool done = held == 0 || multiply(scratch.slice(0, 0, held), from, from + held);
    from += held;
    held = 0;
    return done;
  };
  for (int i = 0; i < a.weights; ++i) {
    if (a.rows[i] == 0) continue;
    if (const Tensor w = in_place(call, i, a.rows[i], k, dtype); w.defined()) {
      if (!flush() || !multiply(w, from, from + a.rows[i])) return false;
      from += a.rows[i];
      continue;
    }
    const BlockMatrix w = block_matrix(a.block_format(i), call.in[static_cast<std::size_t>(kBlocks + i)], a.rows[i], k);
    for (std::int64_t row = 0; row < a.rows[i];) {
      if (held == room && !flush()) return false;
      if (!scratch.defined()) scratch = empty({room, k}, {dtype, x.device()});
      BlockMatrix some = w.from(row);
      some.rows = std::min(room - held, some.rows);
      decode_rows(call, some, w.tail(), scratch.slice(0, held, held + some.rows));
      row += some.rows;
      held += some.rows;
    }
  }
  if (!flush()) return false;
  if (gated) apply_gate(call, products, residual, y);
  return true;
}

bool linear_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<LinearAttrs>();
  for (int i = kX; i < kBlocks; ++i) {
    const Tensor& x = call.in[static_cast<std::size_t>(i)];
    if (x.defined() && x.dtype() == f64) return false;
  }
  const std::int64_t k = call.in[kX].size(-1);
  for (int i = 0; i < a.weights; ++i) {
    if (!has_gpu_kernel(a.block_format(i), k)) return false;
  }
  if (out[0].numel() == 0) return true;
  if (out[0].numel() / out[0].size(-1) <= kMostRows) {
    linear_rows(call, out[0]);
    return true;
  }
  return linear_by_gemm(call, out[0]);
}

}  // namespace etna::quantized
