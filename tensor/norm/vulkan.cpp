#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/norm/norm.h>
#include <etna/tensor/reduce/reduce.h>
#include <etna/tensor/rows/vulkan.h>

namespace etna::norm {
namespace {

struct ForwardPush {
  vulkan::Word64 x, w, b, y;
  std::uint32_t rows, n;
  std::uint32_t x_strides[2];
  std::uint32_t w_stride, b_stride;
  float eps;
};
static_assert(sizeof(ForwardPush) == 60);

struct BackwardPush {
  vulkan::Word64 g, x, w, dx;
  vulkan::Word64 partial_weight, partial_bias;
  std::uint32_t rows, n, groups;
  std::uint32_t g_strides[2], x_strides[2];
  std::uint32_t w_stride;
  float eps;
};
static_assert(sizeof(BackwardPush) == 84);

bool any_f64(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.defined() && x.dtype() == f64; });
}
std::uint32_t stride_of(const Tensor& w) { return w.defined() ? vulkan::word(w.strides()[0]) : 0; }
/// What stands for the dtype of a tensor that was left out, so that it makes no pipeline of its own.
std::uint32_t dtype_of(const Tensor& w) { return vulkan::word(w.defined() ? w.dtype() : f32); }

/// Adds the lines of partial sums into the gradient of a parameter.
void add_lines(const OpCall& call, const Tensor& lines, Tensor& to) {
  Attrs attrs = Attrs::of(reduce::Attributes{reduce::Kind::sum, {0}, false, 0});
  reduce::vulkan({call.op, {&lines, 1}, attrs}, {&to, 1});
}

}  // namespace

bool forward_vulkan(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in)) return false;
  if (out[0].numel() == 0) return true;
  auto a = call.as<Attributes>();
  const Tensor &w = call.in[1], b = a.rms ? Tensor() : call.in[2];
  rows::Strided x(call.in[0], call.in[0].dim() - 1);
  rows::Lanes lanes = rows::lanes_for(x.length, false, 16);
  ForwardPush push{x.x.address(),        vulkan::address_or_zero(w), vulkan::address_or_zero(b),   out[0].address(),
                   vulkan::word(x.rows), vulkan::word(x.length),     {x.strides[0], x.strides[2]}, stride_of(w),
                   stride_of(b),         static_cast<float>(a.eps)};
  vulkan::launch(
      shaders::norm, call,
      {vulkan::word(lanes.lanes), 0, vulkan::word(a.rms), vulkan::word(lanes.held), vulkan::word(x.x.dtype()),
       dtype_of(w), dtype_of(b), (w.defined() ? 1u : 0u) | (b.defined() ? 2u : 0u)},
      push, vulkan::grid(lanes.groups(x.rows)), {&x.x, &w, &b}, {&out[0]});
  return true;
}

bool backward_vulkan(const OpCall& call, std::span<Tensor> out) {
  if (any_f64(call.in) || any_f64(out)) return false;
  auto a = call.as<BackwardAttributes>();
  if (out[0].numel() == 0) {
    for (Tensor& y : out) y.zero_();
    return true;
  }
  int last = call.in[1].dim() - 1;
  rows::Strided g(call.in[0], last), x(call.in[1], last);
  const Tensor& w = call.in[2];
  rows::Lanes lanes = rows::lanes_for(x.length, false, 16);
  bool sums = a.wants_weight || a.wants_bias;
  std::int64_t groups = lanes.groups(x.rows);
  if (sums) groups = std::min<std::int64_t>(groups, std::int64_t{4} * vulkan::capabilities(x.x.device()).compute_units);
  Tensor lines_weight, lines_bias;
  if (a.wants_weight) lines_weight = empty({groups, x.length}, {f32, x.x.device()});
  if (a.wants_bias) lines_bias = empty({groups, x.length}, {f32, x.x.device()});
  BackwardPush push{g.x.address(),
                    x.x.address(),
                    vulkan::address_or_zero(w),
                    out[0].address(),
                    vulkan::address_or_zero(lines_weight),
                    vulkan::address_or_zero(lines_bias),
                    vulkan::word(x.rows),
                    vulkan::word(x.length),
                    vulkan::word(groups),
                    {g.strides[0], g.strides[2]},
                    {x.strides[0], x.strides[2]},
                    stride_of(w),
                    static_cast<float>(a.eps)};
  vulkan::launch(shaders::norm_backward, call,
                 {vulkan::word(lanes.lanes), 0, vulkan::word(a.rms), vulkan::word(lanes.held),
                  vulkan::word(g.x.dtype()), vulkan::word(x.x.dtype()), dtype_of(w), vulkan::word(w.defined()),
                  (a.wants_weight ? 1u : 0u) | (a.wants_bias ? 2u : 0u)},
                 push, vulkan::grid(groups), {&g.x, &x.x, &w}, {&out[0], &lines_weight, &lines_bias});
  if (a.wants_weight) add_lines(call, lines_weight, out[1]);
  if (a.wants_bias) add_lines(call, lines_bias, out.back());
  return true;
}

}  // namespace etna::norm
