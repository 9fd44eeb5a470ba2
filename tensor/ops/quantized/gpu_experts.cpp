#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/matmul/gemm/internal/launch.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>
#include <etna/tensor/ops/quantized/internal/expert_products.h>
#include <etna/tensor/ops/quantized/internal/sorted_rows.h>

// Mixtures of experts on a GPU: few rows choice by choice, many sorted by expert.
namespace etna::quantized {
namespace experts {
namespace {

/// Up to so many rows, each choice reads its expert's weights.
constexpr std::int64_t kMostByChoice = 8;
/// Rows of a workgroup or a tile, as in expert_linear.comp and lib/gemm_matrix.glsl.
constexpr std::int64_t kRowsByChoice = 4, kRowsOfTwo = 2, kPlainTile = 8, kMatrixTile = 64, kMatrixColumns = 32;
constexpr std::int64_t kUnitOfBytes = 64;  ///< elements that expert_dot.comp decodes at once
constexpr std::uint32_t kNoResidual = 99;
constexpr std::int64_t kMatrixStep = 128;  ///< elements that matrix units need a multiple of
constexpr std::uint32_t kMatrixThreads = 128;

enum class SortedKernel { plain, matrix, hopper };

BlockMatrix matrix_of(const ExpertMatrices& w) {
  return block_matrix(*w.format, w.blocks, w.experts * w.rows, w.columns);
}

/// What the variants of expert_linear.comp differ in.
struct ExpertKernel {
  const gpu::Shader& shader;
  std::int64_t rows;     ///< of a workgroup
  std::int64_t choices;  ///< or tiles, or rows whose choices are added up
  std::int64_t shared_by = 1;
  Activation activation = Activation::none;
};

void multiply(const OpCall& call, const ExpertKernel& kernel, const Tensor& x, const ExpertMatrices& w,
              const ExpertMatrices* second, const Tensor& expert, const Tensor& factor, const Tensor& y) {
  const BlockMatrix m = matrix_of(w), other = second != nullptr ? matrix_of(*second) : m;
  const std::int64_t groups = (w.rows + kernel.rows - 1) / kernel.rows;
  gpu::Kernel(kernel.shader, call)
      .on(y.device())
      .spec(m.format, std::min(m.aligned, other.aligned), gpu::u32(x.dtype()), load_width(x, w.columns),
            gpu::u32(expert.dtype()))
      .spec(y.dtype(), gpu::u32(kernel.activation), gpu::u32(factor.defined() ? factor.dtype() : f32))
      .read(x)
      .read(m.at)
      .read(second != nullptr ? other.at : Pointer())
      .read(expert)
      .read(factor)
      .index_errors()
      .write(y)
      .read(m.points(y.device()))
      .u32(kernel.choices, w.rows, w.columns, m.row_bytes, w.experts, kernel.shared_by)
      .dispatch(gpu::grid(kernel.choices * groups));
}

/// Products of sorted rows in f32, by matrix units with decoded blocks. @param y [S, M], may have a row stride
void multiply_on_matrix_units(const OpCall& call, const SortedRows& rows, const ExpertMatrices& w, const Tensor& y) {
  const gpu::Capabilities& can = gpu::capabilities(y.device());
  const BlockMatrix m = matrix_of(w);
  const gpu::MatrixShape* shape = gemm::coopmat_shape(can, bf16);
  gemm::GemmParams p;
  p.device = y.device();
  p.m = rows.x.size(0);
  p.n = w.rows;
  p.k = w.columns;
  p.dtype = bf16;
  p.a = {gpu::pointer(rows.x), false, p.k, {}};
  p.b = {m.at, true, m.row_bytes, {}};
  p.y = {gpu::pointer(y), y.dtype(), y.strides()[0]};
  const std::uint32_t first[] = {kMatrixThreads}, last[] = {shape->m, shape->n, shape->k, m.format, m.aligned};
  gemm::launch_tiled(call, p,
                     {.shader = shaders::gemm_experts_bf16,
                      .tile_m = kMatrixTile,
                      .tile_n = kMatrixColumns,
                      .step = kMatrixStep,
                      .widest = 8,
                      .first = first,
                      .last = last,
                      .experts = gpu::pointer(rows.tiles),
                      .points = m.points(y.device())},
                     1);
}

bool fits_matrix_units(const gpu::Capabilities& can, const ExpertMatrices& w) {
  const gpu::MatrixShape* shape = gemm::coopmat_shape(can, bf16);
  const std::int64_t shared = (kMatrixTile + kMatrixColumns) * (kMatrixStep + 8) * 2 + 256;
  return can.cooperative_matrix && shape != nullptr && shape->m <= kMatrixTile / 2 && shape->n <= kMatrixColumns / 2 &&
         4 * can.subgroup_size == kMatrixThreads && kMatrixThreads <= can.max_workgroup_size &&
         shared <= can.shared_memory_bytes && !shaders::gemm_experts_bf16.words.empty() && w.columns % kMatrixStep == 0;
}

/// What multiplies sorted rows with all of these weights. F32 weights are multiplied in f32.
SortedKernel sorted_kernel(Device device, std::initializer_list<const ExpertMatrices*> all) {
  const bool plain = gemm::requested_variant() == gemm::KernelVariant::plain;
  const bool fits = !plain && std::all_of(all.begin(), all.end(), [&](const ExpertMatrices* w) {
    return w->format->name != "F32" && fits_matrix_units(gpu::capabilities(device), *w);
  });
  return fits ? SortedKernel::matrix : SortedKernel::plain;
}

bool has_one_format(const ExpertMatrices& a, const ExpertMatrices& b) { return a.format == b.format; }

/// Whether expert_dot.comp supports all of these weights.
bool multiplies_in_bytes(Device device, std::initializer_list<const ExpertMatrices*> all) {
  return multiplies_bytes(device) && std::all_of(all.begin(), all.end(), [](const ExpertMatrices* w) {
           return w->format->elements > 1 && w->columns > 0 && w->columns % kUnitOfBytes == 0;
         });
}

/// What the variants of expert_dot.comp differ in.
struct DotKernel {
  const gpu::Shader& shader;
  std::int64_t rows, sets, threads;  ///< of a matrix for a set; sets of a workgroup; threads of a set
  std::int64_t choices;              ///< or rows whose choices are added up
  std::int64_t shared_by;
  Activation activation = Activation::none;
  Tensor residual = {};
};

/// @param x in bytes, `x_rows` rows
void multiply_bytes(const OpCall& call, const DotKernel& kernel, const Tensor& x, std::int64_t x_rows,
                    const ExpertMatrices& w, const ExpertMatrices* second, const Tensor& expert, const Tensor& factor,
                    const Tensor& y) {
  const BlockMatrix m = matrix_of(w), other = second != nullptr ? matrix_of(*second) : m;
  const std::int64_t own = kernel.rows * kernel.sets, groups = (w.rows + own - 1) / own;
  const bool words = (m.at.address | other.at.address | m.row_bytes) % 4 == 0;
  gpu::Kernel(kernel.shader, call)
      .on(y.device())
      .spec(kernel.threads * kernel.sets, kernel.rows, kernel.sets)
      .spec(m.format, std::min(m.aligned, other.aligned), words, gpu::u32(expert.dtype()), gpu::u32(y.dtype()))
      .spec(gpu::u32(kernel.activation), gpu::u32(factor.defined() ? factor.dtype() : f32))
      .spec(kernel.residual.defined() ? gpu::u32(kernel.residual.dtype()) : kNoResidual)
      .read(x)
      .read(m.at)
      .read(second != nullptr ? other.at : Pointer())
      .read(expert)
      .read(factor)
      .read(kernel.residual)
      .index_errors()
      .write(y)
      .read(m.points(y.device()))
      .u32(kernel.choices, w.rows, w.columns, m.row_bytes, w.experts, kernel.shared_by, x_rows)
      .dispatch(gpu::grid(kernel.choices * groups));
}

Tensor bytes_of(const OpCall& call, const Tensor& x) {
  const Tensor y = empty({activation_bytes(x.numel())}, {u8, x.device()});
  quantize_to_bytes(call, x, {}, y);
  return y;
}

/// Threads that split `units` units of k: whole subgroups.
std::int64_t dot_threads(Device device, std::int64_t units, std::int64_t most) {
  const std::int64_t least = std::max<std::int64_t>(32, gpu::capabilities(device).subgroup_size);
  return std::clamp((units + least - 1) / least * least, least, std::max(least, most));
}

void multiply_by_choice_in_bytes(const OpCall& call, const Tensor& x, const ExpertMatrices& w, const Tensor& expert,
                                 const Tensor& y) {
  const std::int64_t threads = dot_threads(y.device(), w.columns / kUnitOfBytes, 128);
  multiply_bytes(call, {shaders::expert_linear_dot, 2, 1, threads, expert.numel(), x.dim() == 3 ? 1 : expert.size(1)},
                 bytes_of(call, x), x.numel() / w.columns, w, nullptr, expert, {}, y);
}

/// Three dispatches: x to bytes, h in bytes, and the sum of the choices.
void feed_forward_in_bytes(const OpCall& call, const ExpertFeedForward& f) {
  const Device device = f.x.device();
  const std::int64_t rows = f.expert.size(0), chosen = f.expert.size(1), choices = rows * chosen;
  const Tensor h = empty({activation_bytes(choices * f.gate.rows)}, {u8, device});
  const std::int64_t set = dot_threads(device, 1, 32);
  const gpu::Capabilities& can = gpu::capabilities(device);
  const auto most = static_cast<std::int64_t>(std::min(can.max_workgroup_size, can.max_subgroups * can.subgroup_size));
  std::int64_t own = 2;
  while (kActivationBlock / own * set > most) own *= 2;
  multiply_bytes(call, {shaders::expert_gate_dot, own, kActivationBlock / own, set, choices, chosen, f.activation},
                 bytes_of(call, f.x), rows, f.gate, &f.up, f.expert, {}, h);
  const std::int64_t threads = dot_threads(device, chosen * f.down.columns / kUnitOfBytes, 128);
  multiply_bytes(call, {shaders::expert_sum_dot, 2, 1, threads, rows, chosen, Activation::none, f.residual}, h, choices,
                 f.down, nullptr, f.expert, f.factor, f.y);
}

bool is_in_bytes(const ExpertFeedForward& f) {
  return f.x.size(0) <= kMostByChoice && has_one_format(f.gate, f.up) &&
         multiplies_in_bytes(f.x.device(), {&f.gate, &f.up, &f.down});
}

/// Of all rows, which are few.
void feed_forward_by_choice(const OpCall& call, const ExpertFeedForward& f) {
  const std::int64_t rows = f.expert.size(0), chosen = f.expert.size(1), choices = rows * chosen;
  const auto hidden = [&] { return empty({choices, f.gate.rows}, {f32, f.x.device()}); };
  Tensor h;
  if (has_one_format(f.gate, f.up)) {
    h = hidden();
    multiply(call, {shaders::expert_gate, kRowsOfTwo, choices, chosen, f.activation}, f.x, f.gate, &f.up, f.expert, {},
             h);
  } else {
    const Tensor gate = hidden(), up = hidden();
    multiply(call, {shaders::expert_linear, kRowsByChoice, choices, chosen}, f.x, f.gate, nullptr, f.expert, {}, gate);
    multiply(call, {shaders::expert_linear, kRowsByChoice, choices, chosen}, f.x, f.up, nullptr, f.expert, {}, up);
    h = activate(gate, f.activation) * up;
  }
  multiply(call, {shaders::expert_sum, kRowsOfTwo, rows, chosen}, h, f.down, nullptr, f.expert, f.factor, f.y);
}

void feed_forward_plain(const OpCall& call, const ExpertFeedForward& f) {
  const SortedRows rows = sorted(call, f.x, f.expert, f.gate.experts, kPlainTile, f32, 0);
  const std::int64_t tiles = rows.tiles.numel(), count = rows.x.size(0);
  const auto result = [&](std::int64_t columns) { return empty({count, columns}, {f32, f.x.device()}); };
  Tensor h = result(f.gate.rows);
  if (has_one_format(f.gate, f.up)) {
    multiply(call, {shaders::expert_gate_sorted, kRowsOfTwo, tiles, 1, f.activation}, rows.x, f.gate, &f.up, rows.tiles,
             {}, h);
  } else {
    const Tensor up = result(f.gate.rows);
    multiply(call, {shaders::expert_linear_sorted, kRowsOfTwo, tiles}, rows.x, f.gate, nullptr, rows.tiles, {}, h);
    multiply(call, {shaders::expert_linear_sorted, kRowsOfTwo, tiles}, rows.x, f.up, nullptr, rows.tiles, {}, up);
    h = activate(h, f.activation) * up;
  }
  const Tensor y = result(f.down.rows);
  multiply(call, {shaders::expert_linear_sorted, kRowsOfTwo, tiles}, h, f.down, nullptr, rows.tiles, {}, y);
  merge(call, y, rows.slots, f.factor, f.y);
}

void feed_forward_on_matrix_units(const OpCall& call, const ExpertFeedForward& f) {
  const SortedRows rows = sorted(call, f.x, f.expert, f.gate.experts, kMatrixTile, bf16, 0);
  const auto result = [&](std::int64_t columns, DType dtype) {
    return empty({rows.x.size(0), columns}, {dtype, f.x.device()});
  };
  const Tensor both = result(2 * f.gate.rows, f32), h = result(f.gate.rows, bf16), y = result(f.down.rows, f32);
  multiply_on_matrix_units(call, rows, f.gate, both.slice(1, 0, f.gate.rows));
  multiply_on_matrix_units(call, rows, f.up, both.slice(1, f.gate.rows, 2 * f.gate.rows));
  apply_gate(call, f.activation, both, {}, h);
  multiply_on_matrix_units(call, {h, rows.slots, rows.tiles}, f.down, y);
  merge(call, y, rows.slots, f.factor, f.y);
}

void feed_forward_on_hopper(const OpCall& call, const ExpertFeedForward& f) {
  const SortedRows rows = sorted(call, f.x, f.expert, f.gate.experts, kExpertTile, bf16, expert_order(f.gate));
  const Tensor h = empty({rows.x.size(0), f.gate.rows}, {bf16, f.x.device()});
  expert_gemm(call, rows.x, rows.tiles, f.gate, &f.up, f.activation, h, expert_order(f.down));
  const Tensor y = empty({rows.x.size(0), f.down.rows}, {f32, f.x.device()});
  expert_gemm(call, h, rows.tiles, f.down, nullptr, Activation::none, y, 0);
  merge(call, y, rows.slots, f.factor, f.y);
}

}  // namespace
}  // namespace experts

bool has_expert_kernel(const ExpertMatrices& w) { return has_gpu_kernel(*w.format, w.columns); }

void multiply_by_choice(const OpCall& call, const Tensor& x, const ExpertMatrices& w, const Tensor& expert,
                        const Tensor& y) {
  using namespace experts;
  const std::int64_t chosen = expert.size(1), choices = expert.numel();
  if (expert.size(0) <= kMostByChoice && multiplies_in_bytes(y.device(), {&w}))
    return multiply_by_choice_in_bytes(call, x, w, expert, y);
  if (expert.size(0) <= kMostByChoice) {
    multiply(call, {shaders::expert_linear, kRowsByChoice, choices, x.dim() == 3 ? 1 : chosen}, x, w, nullptr, expert,
             {}, y);
    return;
  }
  const bool on_matrix_units = sorted_kernel(y.device(), {&w}) == SortedKernel::matrix;
  const SortedRows rows =
      sorted(call, x, expert, w.experts, on_matrix_units ? kMatrixTile : kPlainTile, on_matrix_units ? bf16 : f32, 0);
  const Tensor products = empty({rows.x.size(0), w.rows}, {f32, y.device()});
  if (on_matrix_units)
    multiply_on_matrix_units(call, rows, w, products);
  else
    multiply(call, {shaders::expert_linear_sorted, kRowsOfTwo, rows.tiles.numel()}, rows.x, w, nullptr, rows.tiles, {},
             products);
  merge(call, products, rows.slots.reshape({choices, 1}), ones({choices, 1}, {f32, y.device()}),
        y.reshape({choices, w.rows}));
}

void feed_forward_gpu(const OpCall& call, const ExpertFeedForward& f) {
  using namespace experts;
  const std::int64_t rows = f.x.size(0), chosen = f.expert.size(1);
  if (is_in_bytes(f)) return feed_forward_in_bytes(call, f);
  if (f.residual.defined()) {
    ExpertFeedForward alone = f;
    alone.residual = {};
    feed_forward_gpu(call, alone);
    alone.y.add_(f.residual);
    return;
  }
  if (rows <= kMostByChoice) return feed_forward_by_choice(call, f);
  // Elements of sorted rows are counted in 32 bits.
  const std::int64_t widest = std::max(f.x.size(1), 2 * f.gate.rows), most = (std::int64_t{1} << 31) / widest;
  const std::int64_t at_once = std::max<std::int64_t>(1, (most - f.gate.experts * kExpertTile) / chosen);
  if (rows > at_once) {
    for (std::int64_t from = 0; from < rows; from += at_once) {
      const std::int64_t to = std::min(rows, from + at_once);
      ExpertFeedForward part = f;
      for (Tensor* t : {&part.x, &part.expert, &part.factor, &part.y}) *t = t->slice(0, from, to);
      feed_forward_gpu(call, part);
    }
    return;
  }
  if (has_expert_gemm(f)) return feed_forward_on_hopper(call, f);
  if (sorted_kernel(f.x.device(), {&f.gate, &f.up, &f.down}) == SortedKernel::matrix)
    return feed_forward_on_matrix_units(call, f);
  feed_forward_plain(call, f);
}

}  // namespace etna::quantized
