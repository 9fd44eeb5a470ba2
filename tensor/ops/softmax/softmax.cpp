#include <fmt/format.h>

#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/rows/internal/rows.h>
#include <etna/tensor/ops/rows/internal/strided.h>

// softmax and log_softmax along any dimension. A row with a NaN or +inf, or with only -inf, gives a row of NaN.
namespace etna {
namespace {

struct SoftmaxAttrs {
  int dim = 0;
  bool log = false;
};

std::vector<OutputSpec> softmax_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  for (const Tensor& t : call.in) {
    if (!is_floating(t.dtype())) {
      throw DtypeError(fmt::format("{}: {} {} is not floating; convert it first, e.g. with .to(f32)", call.op.name,
                                   name(t.dtype()), str(t.shape())));
    }
    if (t.shape() != x.shape()) {
      throw ShapeError(fmt::format("{}: {} and {} must have one shape", call.op.name, str(x.shape()), str(t.shape())));
    }
  }
  return {{x.shape(), call.in.back().dtype()}};
}

void softmax_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<SoftmaxAttrs>();
  auto work = [&](auto zero) {
    using T = decltype(zero);
    rows::along<T>(std::array{call.in[0]}, out[0], a.dim, [&](const auto& in, T* y, std::int64_t n) {
      const T* x = in[0];
      T largest = cpu::largest(x, n);
      if (a.log) {
        T shift = static_cast<T>(std::log(cpu::exp_sum(x, largest, nullptr, n)));
        for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - shift;
      } else {
        cpu::scale(y, static_cast<T>(1 / cpu::exp_sum(x, largest, y, n)), n);
      }
    });
  };
  if (call.in[0].dtype() == f64)
    work(double{});
  else
    work(float{});
}

/// in: the gradient of y, then y
void softmax_backward_cpu(const OpCall& call, std::span<Tensor> out) {
  auto a = call.as<SoftmaxAttrs>();
  auto work = [&](auto zero) {
    using T = decltype(zero);
    rows::along<T>(std::array{call.in[0], call.in[1]}, out[0], a.dim, [&](const auto& in, T* dx, std::int64_t n) {
      const T *g = in[0], *y = in[1];
      if (a.log) {
        T total = static_cast<T>(cpu::sum(g, n));
        cpu::unary(cpu::UnaryOp::exp, y, dx, n);
        for (std::int64_t i = 0; i < n; ++i) dx[i] = g[i] - dx[i] * total;
      } else {
        T dot = static_cast<T>(cpu::dot(g, y, n));
        for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] * (g[i] - dot);
      }
    });
  };
  if (call.in[1].dtype() == f64)
    work(double{});
  else
    work(float{});
}

Dims along_dim(const Tensor& x, const SoftmaxAttrs& a) { return x.dim() == 0 ? Dims{} : Dims{a.dim}; }
DType softmax_compute_dtype(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }

TensorList softmax_reference(const OpCall& call) {
  auto a = call.as<SoftmaxAttrs>();
  const Tensor& given = call.in[0];
  if (given.numel() == 0) return {given.clone()};
  Tensor x = given.to(softmax_compute_dtype(given));
  Tensor shifted = x - max(x, along_dim(x, a), true).detach();
  Tensor e = exp(shifted), total = sum(e, along_dim(x, a), true);
  return {(a.log ? shifted - log(total) : e / total).to(given.dtype())};
}
TensorList softmax_backward_reference(const OpCall& call) {
  auto a = call.as<SoftmaxAttrs>();
  DType t = softmax_compute_dtype(call.in[1]);
  Tensor g = call.in[0].to(t), y = call.in[1].to(t);
  Tensor dx = a.log ? g - exp(y) * sum(g, along_dim(y, a), true) : y * (g - sum(g * y, along_dim(y, a), true));
  return {dx.to(call.in[1].dtype())};
}

/// True if the elements of every row can be loaded four at a time: aligned, adjacent, a multiple of four.
bool by_fours(std::initializer_list<const rows::Strided*> all) {
  bool fits = true;
  for (const rows::Strided* x : all) {
    fits = fits && x->length % 4 == 0 && x->inner == 1 && x->strides[2] == 1 && x->strides[0] % 4 == 0 &&
           x->x.address() % (4 * item_size(x->x.dtype())) == 0;
  }
  return fits;
}

/// Threads per row when rows are loaded four elements at a time: as few as possible, since more elements per thread
/// keep more bytes in flight.
/// @param most maximum elements per thread
rows::RowTiling tiling_by_fours(std::int64_t length, std::int64_t most) {
  using rows::RowTiling;
  for (RowTiling choice : {RowTiling{8, 4}, RowTiling{32, 4}, RowTiling{64, 8}, RowTiling{64, 16}, RowTiling{64, 32},
                           RowTiling{256, 8}, RowTiling{256, 16}}) {
    if (choice.elements_per_thread <= most && length <= choice.threads_per_row * choice.elements_per_thread)
      return choice;
  }
  return {};
}

/// Runs all four ops: in[0] is x or the gradient of y, in[1] the y of the forward pass.
template <bool backward>
bool softmax_gpu(const OpCall& call, std::span<Tensor> out) {
  auto attrs = call.as<SoftmaxAttrs>();
  for (const Tensor& x : call.in) {
    if (x.dtype() == f64) return false;
  }
  if (out[0].numel() == 0) return true;
  rows::Strided a(call.in[0], attrs.dim), b(call.in.back(), attrs.dim), y(out[0], attrs.dim);
  bool fours = by_fours({&a, &b, &y});
  rows::RowTiling tiling =
      fours ? tiling_by_fours(y.length, backward ? 16 : 32) : rows::tiling_for(y.length, y.inner > 1, 16);
  if (tiling.elements_per_thread == 0) fours = false;
  gpu::Kernel(shaders::softmax, call)
      .spec(tiling.threads_per_row, tiling.columns, (backward ? 2 : 0) + (attrs.log ? 1 : 0),
            tiling.elements_per_thread)
      .spec(a.x.dtype(), b.x.dtype(), y.x.dtype(), fours)
      .read(a.x)
      .read(b.x)
      .write(y.x)
      .u32(y.rows, y.length, y.inner)
      .u32(a.strides)
      .u32(b.strides)
      .u32(y.strides)
      .dispatch(gpu::grid(tiling.groups(y.rows)));
  return true;
}

const OpDef kSoftmaxBackward = {.name = "softmax_backward",
                                .infer = softmax_infer,
                                .cpu = softmax_backward_cpu,
                                .gpu = softmax_gpu<true>,
                                .reference = softmax_backward_reference};
const OpDef kLogSoftmaxBackward = {.name = "log_softmax_backward",
                                   .infer = softmax_infer,
                                   .cpu = softmax_backward_cpu,
                                   .gpu = softmax_gpu<true>,
                                   .reference = softmax_backward_reference};

TensorList softmax_vjp(const VjpCall& call) {
  const OpDef& op = call.as<SoftmaxAttrs>().log ? kLogSoftmaxBackward : kSoftmaxBackward;
  return {apply1(op, {call.grad[0], call.out[0]}, call.attrs)};
}

const OpDef kSoftmax = {.name = "softmax",
                        .infer = softmax_infer,
                        .cpu = softmax_cpu,
                        .gpu = softmax_gpu<false>,
                        .reference = softmax_reference,
                        .vjp = softmax_vjp,
                        .saved = Saved::outputs};
const OpDef kLogSoftmax = {.name = "log_softmax",
                           .infer = softmax_infer,
                           .cpu = softmax_cpu,
                           .gpu = softmax_gpu<false>,
                           .reference = softmax_reference,
                           .vjp = softmax_vjp,
                           .saved = Saved::outputs};

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
  detail::require_defined("softmax", x);
  return apply1(kSoftmax, {detail::raised(x)}, Attrs::of(SoftmaxAttrs{wrap_dim(dim, x.dim(), "softmax"), false}));
}
Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  detail::require_defined("log_softmax", x);
  return apply1(kLogSoftmax, {detail::raised(x)}, Attrs::of(SoftmaxAttrs{wrap_dim(dim, x.dim(), "log_softmax"), true}));
}

std::span<const OpDef* const> ops_in_softmax() {
  static const OpDef* const list[] = {&kSoftmax, &kLogSoftmax, &kSoftmaxBackward, &kLogSoftmaxBackward};
  return list;
}

}  // namespace etna
