#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/normalization/internal/norm.h>
#include <etna/tensor/ops/rows/internal/strided.h>

namespace etna::normalization {
namespace {

bool any_f64(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.defined() && x.dtype() == f64; });
}
std::int64_t stride_of(const Tensor& w) { return w.defined() ? w.strides()[0] : 0; }
/// The dtype, or a placeholder for an absent tensor, so that absence does not create another pipeline.
DType dtype_of(const Tensor& w) { return w.defined() ? w.dtype() : f32; }

/// True if a row's elements can be loaded four at a time from all of these: aligned, dense, a multiple of four.
bool by_fours(std::int64_t length, const rows::RowTiling& tiling, std::initializer_list<const rows::Strided*> strided,
              std::initializer_list<const Tensor*> dense) {
  auto aligned = [](const Tensor& x) { return x.address() % (4 * item_size(x.dtype())) == 0; };
  bool fits = length % 4 == 0 && tiling.elements_per_thread % 4 == 0 && tiling.elements_per_thread > 0;
  for (const rows::Strided* x : strided) fits = fits && aligned(x->x) && x->strides[2] == 1 && x->strides[0] % 4 == 0;
  for (const Tensor* x : dense)
    fits = fits && (!x->defined() || (aligned(*x) && (x->dim() != 1 || stride_of(*x) == 1)));
  return fits;
}

/// Tiling for rows loaded four elements at a time: as few threads per row as possible, since more elements per thread
/// keep more bytes in flight. A row of 768 takes 64 threads of twelve elements, not 192 of four.
rows::RowTiling tiling_of(std::int64_t length) {
  if (length % 4 == 0) {
    for (std::int64_t threads : {8, 32, 64, 128, 256}) {
      const std::int64_t elements = (length / 4 + threads - 1) / threads * 4;
      if (elements <= (threads <= 32 ? 4 : 16)) return {threads, elements};
    }
  }
  return rows::tiling_for(length, false, 16);
}

/// Workgroups for `blocks` blocks of rows, with sums in registers: as many as certainly run at once, with nearly equal
/// numbers of blocks.
std::int64_t even_groups(std::int64_t blocks, const rows::RowTiling& tiling, std::int64_t units) {
  const std::int64_t most = units * (tiling.elements_per_thread > 4 ? 2 : 4), turns = (blocks + most - 1) / most;
  return (blocks + turns - 1) / turns;
}

/// Rows of partial sums, and the gradient that is their sum.
struct Lines {
  Tensor partial, sum;
};

/// Adds up the partial sums of both parameters in one dispatch, or of one if the other needs no gradient.
void add_lines(const OpCall& call, const Lines& weight, const Lines& bias) {
  const Lines &first = weight.sum.defined() ? weight : bias, &second = bias.sum.defined() ? bias : first;
  std::int64_t n = first.sum.numel();
  auto groups = gpu::grid(n, 8);
  groups[2] = &first == &second ? 1 : 2;
  gpu::Kernel(shaders::norm_lines, call)
      .spec(first.sum.dtype(), second.sum.dtype(), n % 4 == 0 ? 4 : 1)
      .read(first.partial)
      .read(second.partial)
      .write(first.sum)
      .write(second.sum)
      .u32(first.partial.size(0), n)
      .dispatch(groups);
}

}  // namespace

namespace {

/// What the kernel reads beside x, by the bits that tell it.
constexpr std::uint32_t kWeightGiven = 1, kBiasGiven = 2, kDeltaGiven = 4, kGateGiven = 8;

/// @param beside delta or the gate, or undefined @param given kDeltaGiven or kGateGiven with it, else 0
void run_norm(const OpCall& call, const NormAttrs& a, const Inputs& in, const Tensor& beside, std::uint32_t given,
              Tensor& y, const Tensor& sum) {
  const Tensor &w = in.weight, &b = in.bias;
  rows::Strided x(in.x, in.x.dim() - 1), delta = beside.defined() ? rows::Strided(beside, beside.dim() - 1) : x;
  rows::RowTiling tiling = tiling_of(x.length);
  gpu::Kernel(shaders::norm, call)
      .spec(tiling.threads_per_row, 0, a.rms, tiling.elements_per_thread, x.x.dtype(), dtype_of(w), dtype_of(b))
      .spec((w.defined() ? kWeightGiven : 0) | (b.defined() ? kBiasGiven : 0) | given)
      .spec(delta.x.dtype(), y.dtype(), by_fours(x.length, tiling, {&x, &delta}, {&w, &b, &y, &sum}))
      .read(x.x)
      .read(w)
      .read(b)
      .write(y)
      .u32(x.rows, x.length)
      .u32(x.strides[0], x.strides[2], stride_of(w), stride_of(b))
      .f32(static_cast<float>(a.eps))
      .read(beside.defined() ? delta.x : Tensor())
      .write(sum)
      .u32(delta.rows, delta.strides[0], delta.strides[2])
      .dispatch(gpu::grid(tiling.groups(x.rows)));
}

}  // namespace

bool forward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in)) return false;
  if (out[0].numel() == 0) return true;
  const auto a = call.as<NormAttrs>();
  const Inputs in(call);
  run_norm(call, a, in, in.delta, a.adds ? kDeltaGiven : 0, out.back(), a.adds ? out[0] : Tensor());
  return true;
}

bool gated_gpu(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in)) return false;
  if (out[0].numel() == 0) return true;
  run_norm(call, call.as<NormAttrs>(), {call.in[0], call.in[1]}, call.in[2], kGateGiven, out[0], {});
  return true;
}

bool backward_gpu(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in) || any_f64(out)) return false;
  auto a = call.as<NormBackwardAttrs>();
  if (out[0].numel() == 0) {
    for (Tensor& y : out) y.zero_();
    return true;
  }
  int last = call.in[1].dim() - 1;
  rows::Strided g(call.in[0], last), x(call.in[1], last);
  const Tensor &w = call.in[2], &given_more = call.in[3];
  rows::Strided more = given_more.defined() ? rows::Strided(given_more, last) : g;
  Tensor dweight, dbias, ddelta;
  std::size_t next = 1;
  if (a.wants_weight) dweight = out[next++];
  if (a.wants_bias) dbias = out[next++];
  if (a.wants_delta) ddelta = out[next];
  rows::RowTiling tiling = tiling_of(x.length);
  bool sums = a.wants_weight || a.wants_bias;
  std::int64_t groups = tiling.groups(x.rows);
  if (sums) groups = even_groups(groups, tiling, gpu::capabilities(x.x.device()).compute_units);
  Tensor lines_weight, lines_bias;
  if (a.wants_weight) lines_weight = empty({groups, x.length}, {f32, x.x.device()});
  if (a.wants_bias) lines_bias = empty({groups, x.length}, {f32, x.x.device()});
  gpu::Kernel(shaders::norm_backward, call)
      .spec(tiling.threads_per_row, 0, a.rms, tiling.elements_per_thread, g.x.dtype(), x.x.dtype(), dtype_of(w))
      .spec((w.defined() ? 1 : 0) | (given_more.defined() ? 2 : 0))
      .spec((a.wants_weight ? 1 : 0) | (a.wants_bias ? 2 : 0) | (a.wants_delta ? 4 : 0))
      .spec(more.x.dtype(), dtype_of(ddelta), by_fours(x.length, tiling, {&g, &x, &more}, {&w, &out[0], &ddelta}))
      .read(g.x)
      .read(x.x)
      .read(w)
      .write(out[0])
      .write(lines_weight)
      .write(lines_bias)
      .u32(x.rows, x.length, groups)
      .u32(g.strides[0], g.strides[2], x.strides[0], x.strides[2], stride_of(w))
      .f32(static_cast<float>(a.eps))
      .read(more.x)
      .u32(more.strides[0], more.strides[2])
      .write(ddelta)
      .dispatch(gpu::grid(groups));
  if (sums) add_lines(call, {lines_weight, dweight}, {lines_bias, dbias});
  return true;
}

}  // namespace etna::normalization
