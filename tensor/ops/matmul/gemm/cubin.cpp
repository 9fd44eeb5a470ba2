#include <algorithm>
#include <span>
#include <vector>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/matmul/gemm/internal/cubin.h>
#include <etna/tensor/ops/matmul/gemm/internal/epilogue.h>
#include <etna/tensor/ops/matmul/gemm/internal/gemm_params.h>
#include <etna/tensor/ops/matmul/gemm/internal/tensor_map.h>
#include <etna/tensor/ops/matmul/gemm/internal/tiling.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

// Gemms with Hopper's warpgroup instructions: the kernels of shaders/sm90/.
namespace etna::gemm {
namespace {

constexpr std::int64_t kResidentSteps = 9;  ///< as in shaders/sm90/convolution_bf16.cu

/// The paths from sums to results, as in shaders/sm90/direct.cuh: through shared memory, from registers, and from
/// registers with an activation or its derivative.
enum Path { kStaged, kDirect, kActivated };

/// A kernel's tile and resources, as in shaders/sm90/gemm16.cuh and gemm32.cuh.
struct Kernel {
  const gpu::CubinKernel* cubin;
  std::int64_t rows, step;  ///< tile rows, and step along k
  std::uint32_t threads, shared_bytes;
  double step_us;      ///< estimated time of one step of k
  double store_us[3];  ///< what storing a tile adds to it, for each Path
  std::int64_t columns = 128;
};

enum OperandLayout { kNN, kNT, kTN };

/// Tiles of 128 x 128, 256 x 128 and 128 x 192 (f16 and bf16) and 256 x 64 (f32, and some of a CubinFamily).
enum TileShape { kSquare, kTall, kNarrow, kWide };

const gpu::CubinKernel* choose(DType dtype, OperandLayout layout, TileShape shape) {
  using namespace cubins;
  static const gpu::CubinKernel* const bf16s[] = {
      &cubin_gemm_bf16_nn,     &cubin_gemm_bf16_nt,     &cubin_gemm_bf16_tn,
      &cubin_gemm_bf16_nn_256, &cubin_gemm_bf16_nt_256, &cubin_gemm_bf16_tn_256,
      &cubin_gemm_bf16_nn_192, &cubin_gemm_bf16_nt_192, &cubin_gemm_bf16_tn_192};
  static const gpu::CubinKernel* const f16s[] = {
      &cubin_gemm_f16_nn,     &cubin_gemm_f16_nt,     &cubin_gemm_f16_tn,
      &cubin_gemm_f16_nn_256, &cubin_gemm_f16_nt_256, &cubin_gemm_f16_tn_256,
      &cubin_gemm_f16_nn_192, &cubin_gemm_f16_nt_192, &cubin_gemm_f16_tn_192};
  static const gpu::CubinKernel* const f32s[] = {&cubin_gemm_f32_nn,    &cubin_gemm_f32_nt,    &cubin_gemm_f32_tn,
                                                 &cubin_gemm_f32_nn_64, &cubin_gemm_f32_nt_64, &cubin_gemm_f32_tn_64};
  return (dtype == f32 ? f32s : dtype == f16 ? f16s : bf16s)[layout + (shape == kSquare ? 0 : shape == kWide ? 6 : 3)];
}

Kernel kernel_of(DType dtype, OperandLayout layout, TileShape shape) {
  constexpr std::uint32_t scratch = 8 * 4096;
  const gpu::CubinKernel* cubin = choose(dtype, layout, shape);
  if (shape == kNarrow && dtype == f32)
    return {cubin, 256, 32, 512, 4 * 40960 + 2 * 12288 + scratch + 4 * 16 + 2 * 24, 1.4, {1, 1, 1}, 64};
  if (shape == kNarrow) return {cubin, 256, 64, 384, 4 * 40960 + scratch + 4 * 16 + 16, 0.75, {2.6, 1.3, 3.5}, 64};
  if (dtype == f32) return {cubin, 128, 32, 512, 4 * 32768 + 2 * 24576 + scratch + 4 * 16 + 2 * 24, 1.4, {1, 1, 1}};
  if (shape == kTall) return {cubin, 256, 64, 384, 4 * 49152 + scratch + 4 * 16 + 16, 0.75, {5.3, 2.5, 6.4}};
  if (shape == kWide) return {cubin, 128, 64, 384, 5 * 40960 + 2 * 13056 + 5 * 16 + 16, 0.57, {0, 0.9, 2.8}, 192};
  return {cubin, 128, 64, 384, 6 * 32768 + scratch + 6 * 16 + 16, 0.42, {2.1, 0.5, 1.9}};
}

/// The width of vectors that the epilogue may use: 8 if all of its rows are of 16 bits and allow that.
std::int64_t width_of(const GemmParams& p, const EpilogueSpec& epilogue) {
  if (epilogue.width < 4) return epilogue.width;
  for (const Rows& r : {p.y, p.aux(), p.residual}) {
    if (r.at && (item_size(r.dtype) != 2 || vector_width(r.at.address, r.dtype, {r.leading}, 8) != 8)) return 4;
  }
  return 8;
}

/// As path_of() in shaders/sm90/direct.cuh, which sees partial sums in f32 if k is split.
Path path_of(const GemmParams& p, std::int64_t split_k) {
  if (p.dtype == f32 || p.n % 8 != 0) return kStaged;
  if (split_k > 1) return kDirect;
  const bool activates = p.aux().at || p.activation != Activation::none;
  const std::int64_t width = width_of(p, EpilogueSpec(p));
  if (p.residual.at && p.residual.dtype != p.y.dtype) return kStaged;
  if (!activates && p.y.dtype == f32) return width >= 4 ? kDirect : kStaged;
  if (p.y.dtype != p.dtype || width != 8) return kStaged;
  if (!activates) return kDirect;
  return p.residual.at || (p.aux().at && p.aux().dtype != p.dtype) ? kStaged : kActivated;
}

/// The number of chunks of whole steps that a split-K of `split_k` comes to.
std::int64_t effective_split_k(std::int64_t steps, std::int64_t split_k) {
  return ceil_div(steps, ceil_div(steps, split_k));
}

/// A kernel and its split-K.
struct Launch {
  Kernel kernel;
  std::int64_t split_k = 1;
  double us = 0;
};

/// The tile of a tuned tiling, an index of cubin_tiles(), if the gemm can have it and was tuned on the same path
/// (activations favor other tiles) or is forced to have it.
std::optional<TileShape> tuned_shape(const GemmParams& p, std::span<const TileShape> shapes) {
  const bool wide = std::ranges::find(shapes, kWide) != shapes.end();
  if (!p.tiling) return {};
  const Path path = path_of(p, effective_split_k(ceil_div(p.k, 64), p.tiling->split_k));
  if (path == kActivated && overrides().gemm_config == nullptr) return {};
  if (p.tiling->tile == 0) return kSquare;
  if (p.tiling->tile == 1 && p.dtype != f32) return kTall;
  if (p.tiling->tile == 2 && wide && path != kStaged) return kWide;
  return {};
}

/// The launch estimated to be fastest on `units` multiprocessors: waves of tiles and, with split-K, writing, reading
/// and adding the partial sums.
Launch launch_of(const GemmParams& p, OperandLayout layout, std::int64_t units, std::span<const TileShape> shapes) {
  if (const std::optional<TileShape> shape = tuned_shape(p, shapes))
    return {kernel_of(p.dtype, layout, *shape), p.tiling->split_k};
  Launch best;
  const Path paths[] = {path_of(p, 1), path_of(p, 2)};
  for (TileShape shape : shapes) {
    const Kernel kernel = kernel_of(p.dtype, layout, shape);
    const std::int64_t tiles = ceil_div(p.m, kernel.rows) * ceil_div(p.n, kernel.columns) * p.matrices();
    const std::int64_t steps = ceil_div(p.k, kernel.step);
    const double results = static_cast<double>(p.m * p.n * p.matrices());
    std::vector<std::int64_t> splits = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
    // Few tiles in one whole wave.
    if (shape == kNarrow && units / tiles > 1) splits.push_back(units / tiles);
    for (std::int64_t split_k : splits) {
      const Path path = paths[split_k > 1];
      if (shape == kWide && path == kStaged) continue;
      if (split_k > 1 && (steps / split_k < 4 || results * static_cast<double>(split_k) > 1.3e8)) continue;
      const std::int64_t rounds = ceil_div(tiles * split_k, units), each = ceil_div(steps, split_k);
      constexpr double start_us = 1.5, second_pass_us = 4, bytes_a_us = 3.0e6;
      double us = start_us + static_cast<double>(rounds * each) * kernel.step_us;
      us += static_cast<double>(rounds) * kernel.store_us[path];
      if (split_k > 1) us += second_pass_us + results * 8 * static_cast<double>(split_k) / bytes_a_us;
      if (best.us == 0 || us < best.us) best = {kernel, split_k, us};
    }
  }
  return best;
}

/// The operand as the copy engine addresses it: rows along k, or one row per k.
auto map_of(const Operand& x, DType dtype, bool along_k, std::int64_t extent, std::int64_t k, std::int64_t matrices,
            std::int64_t step, std::int64_t tile) {
  return tensor_map({.at = x.at,
                     .dtype = dtype,
                     .columns = along_k ? k : extent,
                     .rows = along_k ? extent : k,
                     .leading = x.leading,
                     .matrices = x.strides[1] == 0 ? 1 : matrices,
                     .stride = x.strides[1],
                     .box_rows = along_k ? tile : step});
}

/// An operand's matrix as stored.
struct CubinStored {
  const Operand& operand;
  DType dtype;
  std::int64_t rows, columns;
  std::int64_t others;  ///< number of rows or columns of the other operand that each element is multiplied with

  std::int64_t wide() const { return static_cast<std::int64_t>(16 / item_size(dtype)); }
  bool aligned() const { return operand.at.address % 16 == 0 && operand.leading % wide() == 0; }
  /// True if a copy pays off.
  bool worth_a_copy() const { return others >= 128 && rows * columns >= 1 << 16; }
};

/// A copy of the operand with rows that start at multiples of 16 bytes, as the copy engine requires.
Operand padded(const OpCall& call, const CubinStored& x, Device device, Tensor& copy) {
  const std::int64_t leading = ceil_div(x.columns, x.wide()) * x.wide();
  copy = empty({x.rows, leading}, {x.dtype, device});
  Arguments arguments;
  arguments.read(x.operand.at);
  arguments.write(gpu::pointer(copy));
  for (std::int64_t n : {x.rows, x.columns, x.operand.leading, leading}) arguments.number(gpu::u32(n));
  gpu::enqueue(device, {.kernel = x.wide() == 8 ? cubins::cubin_pad_rows_2 : cubins::cubin_pad_rows_4,
                        .op = call.op.name,
                        .arguments = arguments,
                        .groups = {gpu::u32(std::min<std::int64_t>(x.rows, 4096)), 1, 1},
                        .threads = 256});
  return {.at = gpu::pointer(copy), .transposed = x.operand.transposed, .leading = leading};
}

std::int64_t units_of(const GemmParams& p) {
  return static_cast<std::int64_t>(gpu::capabilities(p.device).compute_units);
}

/// @param more parameters after the gemm's, if the kernel has any @param logits columns of y that are logits, or 0
void enqueue(const OpCall& call, const GemmParams& p, const Launch& launch, const Arguments& a, const Arguments& b,
             std::span<const std::uint32_t> more, std::int64_t logits = 0) {
  const Kernel& kernel = launch.kernel;
  const std::int64_t wanted_split_k = launch.split_k, units = units_of(p);
  const std::int64_t steps = ceil_div(p.k, kernel.step), steps_a_split = ceil_div(steps, wanted_split_k),
                     split_k = effective_split_k(steps, wanted_split_k);
  const bool split = split_k > 1;
  const Tensor partial = split ? empty({split_k * p.m * p.n * p.inner}, {f32, p.device}) : Tensor();
  const EpilogueSpec epilogue = split ? EpilogueSpec::partial_sums(partial, p.n) : EpilogueSpec(p);
  const std::int64_t tiles_m = ceil_div(p.m, kernel.rows), tiles_n = ceil_div(p.n, kernel.columns);

  // hopper::Parameters: the tensor maps come first, since the copy engine requires them at multiples of 64 bytes.
  Arguments arguments;
  auto u32s = [&](auto... n) { (arguments.number(gpu::u32(n)), ...); };
  arguments.append(a);
  arguments.append(b);
  if (logits > 0) {
    GemmParams with_states = p;
    p.softmax->states = empty({p.m, tiles_n, 3}, {f32, p.device});
    with_states.preactivation = {gpu::pointer(p.softmax->states), f32, tiles_n * 3};
    arguments.append(epilogue_arguments(with_states));
  } else {
    arguments.append(split ? partial_sum_arguments(partial, p.n) : epilogue_arguments(p));
  }
  u32s(epilogue.flags, epilogue.y, epilogue.bias, epilogue.aux, epilogue.residual,
       split ? epilogue.width : width_of(p, epilogue));
  u32s(p.m, p.n, tiles_m, tiles_n, p.inner, split_k, steps, steps_a_split);
  u32s(p.a.strides[1] != 0, p.b.strides[1] != 0);
  u32s(2048 / kernel.rows, logits);
  if (!more.empty()) {
    while (arguments.bytes().size() % 64 != 0) u32s(0);
    arguments.numbers(more);
  }

  gpu::enqueue(p.device, {.kernel = *kernel.cubin,
                          .op = call.op.name,
                          .arguments = arguments,
                          .groups = {gpu::u32(std::min(tiles_m * tiles_n * p.inner * split_k, units)), 1, 1},
                          .threads = kernel.threads,
                          .shared_bytes = kernel.shared_bytes});
  if (split) add_split_k(call, p, partial, split_k);
}

/// Columns that may be stored so that rows of logits end at a multiple of 16 bytes; p.n if they are not logits.
std::int64_t stored_columns(const GemmParams& p) {
  const std::int64_t wide = ceil_div(p.n, std::int64_t{8}) * 8;
  return p.softmax != nullptr && p.dtype != f32 && p.y.dtype == p.dtype && !p.bias && p.y.leading >= wide ? wide : p.n;
}

bool launch_matrices(const OpCall& call, const GemmParams& given, OperandLayout layout) {
  GemmParams p = given;
  p.n = stored_columns(given);
  static constexpr TileShape of_f32[] = {kSquare, kNarrow}, of_16_bits[] = {kSquare, kTall, kWide};
  Launch launch = launch_of(p, layout, units_of(p), p.dtype == f32 ? std::span<const TileShape>(of_f32) : of_16_bits);
  // The kernel for logits has tiles of 128 x 192. The copy engine makes columns behind the last one 0.
  const bool logits = p.softmax != nullptr && layout == kNT && p.matrices() == 1 && EpilogueSpec(p).flags == 0 &&
                      p.y.dtype == p.dtype && p.dtype != f32 && path_of(p, 1) == kDirect;
  if (logits) launch = {kernel_of(p.dtype, layout, kWide)};
  const Kernel& kernel = launch.kernel;
  const auto a = map_of(p.a, p.dtype, layout != kTN, p.m, p.k, p.inner, kernel.step, kernel.rows);
  const auto b = map_of(p.b, p.dtype, layout == kNT, given.n, p.k, p.inner, kernel.step, kernel.columns);
  if (!a || !b) return false;
  enqueue(call, p, launch, *a, *b, {}, logits ? given.n : 0);
  return true;
}

/// A cubin starts about 3 us later than a shader on an H200: it loads the tensor maps. Shaders finish first below this
/// number of multiplications.
bool too_small(const GemmParams& p) {
  constexpr double least = 2.5e8;
  const double multiplications = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return multiplications * static_cast<double>(p.matrices()) < least && !p.tiling &&
         requested_variant() != KernelVariant::cubin;
}

bool multiplies(const GemmParams& p) {
  auto known = [](DType t) { return t == f32 || t == f16 || t == bf16; };
  return known(p.dtype) && known(p.y.dtype) && gpu::capabilities(p.device).cubin == 90;
}

}  // namespace

bool launch_cubin_family(const OpCall& call, const GemmParams& p, const CubinFamily& family) {
  if (requested_variant().value_or(KernelVariant::cubin) != KernelVariant::cubin) return false;
  const auto& [square, tall, narrow, resident] = family.kernels;
  if (!multiplies(p) || too_small(p) || (square ? square : narrow)->cubin.empty()) return false;
  std::vector<TileShape> shapes;
  if (square) shapes.push_back(kSquare);
  if (tall) shapes.push_back(kTall);
  if (narrow && p.dtype == f32) shapes.push_back(kNarrow);
  // Half of a tile of 128 columns would be idle, but the estimates are too close to tell.
  if (narrow && p.dtype != f32 && p.n <= 64 && (!square || ceil_div(p.m, 256) >= units_of(p))) shapes = {kNarrow};
  Launch launch = launch_of(p, static_cast<OperandLayout>(family.layout), units_of(p), shapes);
  Kernel& kernel = launch.kernel;
  kernel.cubin = kernel.columns == 64 ? narrow : kernel.rows == 256 ? tall : square;
  if (resident && kernel.columns == 64 && launch.split_k == 1 && p.k <= kResidentSteps * kernel.step) {
    kernel.cubin = resident;
    kernel.shared_bytes += kResidentSteps * 8192 - 4 * 8192 - 32768 - 16;  // three stages of a, and all of b
  }
  const auto a = family.a(kernel.rows, kernel.step), b = family.b(kernel.columns, kernel.step);
  if (!a || !b) return false;
  enqueue(call, p, launch, *a, *b, family.more);
  return true;
}

std::span<const Tile> cubin_tiles() {
  static constexpr Tile tiles[] = {
      {128, 128, 1, 0, 0, 0}, {256, 128, 1, 0, 0, 0}, {128, 192, 1, 0, 0, 0}};  // launch_of() estimates their times
  return tiles;
}

int batch_dimensions_at_once(const GemmParams& p) {
  const bool cubin = requested_variant().value_or(KernelVariant::cubin) == KernelVariant::cubin && multiplies(p) &&
                     !too_small(p) && !choose(p.dtype, kNN, kSquare)->cubin.empty();
  return cubin ? 1 : 2;
}

bool launch_cubin(const OpCall& call, const GemmParams& p) {
  if (!multiplies(p) || (p.a.transposed && p.b.transposed)) return false;
  const OperandLayout layout = p.a.transposed ? kTN : p.b.transposed ? kNT : kNN;
  if (too_small(p)) return false;
  if (choose(p.dtype, layout, kSquare)->cubin.empty()) return false;
  if (static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.inner) > 4e9) return false;
  for (const Operand& x : {p.a, p.b}) {
    const auto bytes = static_cast<std::int64_t>(item_size(p.dtype));
    if (p.outer > 1 && x.strides[0] * bytes % 16 != 0) return false;
  }
  GemmParams one = p;
  one.outer = 1;
  Tensor a, b;  // copies
  if (p.matrices() == 1) {
    const CubinStored stored_a{p.a, p.dtype, p.a.transposed ? p.k : p.m, p.a.transposed ? p.m : p.k, p.n},
        stored_b{p.b, p.dtype, p.b.transposed ? p.n : p.k, p.b.transposed ? p.k : p.n, p.m};
    for (const CubinStored* x : {&stored_a, &stored_b}) {
      if (!x->aligned() && !x->worth_a_copy()) return false;
    }
    if (!stored_a.aligned()) one.a = padded(call, stored_a, p.device, a);
    if (!stored_b.aligned()) one.b = padded(call, stored_b, p.device, b);
  }
  for (std::int64_t i = 0; i < p.outer; ++i) {
    // The first launch decides for all matrices.
    if (!launch_matrices(call, one, layout)) return false;
    one.a.advance(one.a.strides[0], p.dtype), one.b.advance(one.b.strides[0], p.dtype);
    for (Rows* rows : {&one.y, &one.preactivation, &one.derivative_at, &one.residual}) rows->advance(p.m * p.inner);
  }
  return true;
}

}  // namespace etna::gemm
