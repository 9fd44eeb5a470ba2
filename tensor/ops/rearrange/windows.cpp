#include <algorithm>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/rows/internal/rows.h>
#include <etna/tensor/ops/rows/internal/strided.h>

// sliding_windows: overlapping windows along a dimension, as a copy. overlap_add: their sum. Each is the other's
// gradient.
namespace etna {
namespace {

struct WindowsAttrs {
  int dim = 0;
  std::int64_t size = 1, step = 1, length = 0;  ///< length: of overlap_add
};

std::vector<OutputSpec> sliding_windows_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  const auto a = call.as<WindowsAttrs>();
  if (a.size < 1 || a.step < 1) {
    throw ShapeError(fmt::format("sliding_windows: size is {} and step {}; wanted at least 1 of both", a.size, a.step));
  }
  Shape shape = x.shape();
  if (a.size > shape[a.dim]) {
    throw ShapeError(fmt::format("sliding_windows: a window of {} elements is longer than dimension {} of x {}", a.size,
                                 a.dim, str(shape)));
  }
  if (x.dim() == kMaxRank)
    throw ShapeError(fmt::format("sliding_windows: x {} has no room for another dimension", str(shape)));
  shape[a.dim] = (shape[a.dim] - a.size) / a.step + 1;
  shape.push_back(a.size);
  return {{shape, x.dtype()}};
}

void sliding_windows_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const auto a = call.as<WindowsAttrs>();
  const Tensor& x = call.in[0];
  // Where each window begins: x's strides, a step apart along the dimension.
  Shape windows = out[0].shape();
  windows.erase(windows.rank() - 1);
  Strides strides = x.strides();
  const std::int64_t along = strides[a.dim];
  strides[a.dim] *= a.step;
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.host<T>();
    T* to = out[0].host<T>();
    cpu::parallel_for(numel(windows), std::max<std::int64_t>(1, rows::kGrain / a.size), [&](auto begin, auto end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* window = from + rows::offset_of(windows, strides, r);
        for (std::int64_t i = 0; i < a.size; ++i) to[r * a.size + i] = window[i * along];
      }
    });
  });
}

bool sliding_windows_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return true;
  const auto a = call.as<WindowsAttrs>();
  const rows::Strided x(call.in[0], a.dim);
  gpu::Kernel(shaders::sliding_windows, call)
      .spec(item_size(out[0].dtype()))
      .read(x.x)
      .write(out[0])
      .u32(out[0].numel(), out[0].shape()[a.dim], a.size, a.step, x.length, x.inner)
      .u32(x.strides)
      .dispatch(gpu::grid(out[0].numel(), 1024));
  return true;
}

/// Where each element of the windows lies along the dimension, window by window.
Tensor places_of(std::int64_t windows, const WindowsAttrs& a, Device device) {
  const auto count_up = [&](std::int64_t n) { return arange(0, static_cast<double>(n)).to(i64).to(device); };
  return (count_up(windows).unsqueeze(1) * static_cast<double>(a.step) + count_up(a.size)).reshape({windows * a.size});
}

TensorList sliding_windows_reference(const OpCall& call) {
  const auto a = call.as<WindowsAttrs>();
  const Tensor& x = call.in[0];
  const std::int64_t windows = (x.shape()[a.dim] - a.size) / a.step + 1;
  const Tensor taken = index_select(x, a.dim, places_of(windows, a, x.device()));
  return {movedim(unflatten(taken, a.dim, {windows, a.size}), a.dim + 1, -1)};
}

TensorList sliding_windows_vjp(const VjpCall& call) {
  const auto a = call.as<WindowsAttrs>();
  return {overlap_add(call.grad[0], a.dim, a.step, call.in[0].shape()[a.dim])};
}

const OpDef kSlidingWindows = {.name = "sliding_windows",
                               .infer = sliding_windows_infer,
                               .cpu = sliding_windows_cpu,
                               .gpu = sliding_windows_gpu,
                               .reference = sliding_windows_reference,
                               .vjp = sliding_windows_vjp};

std::vector<OutputSpec> overlap_add_infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  const auto a = call.as<WindowsAttrs>();
  if (!is_floating(x.dtype()))
    throw DtypeError(fmt::format("overlap_add: x holds {}; wanted floating numbers", name(x.dtype())));
  Shape shape = x.shape();
  const std::int64_t windows = shape[a.dim];
  shape.erase(shape.rank() - 1);
  if (a.length < a.size || (a.length - a.size) / a.step + 1 != windows) {
    throw ShapeError(
        fmt::format("overlap_add: {} windows of {}, {} apart, are not those of {} elements; see dimension {} of x {}",
                    windows, a.size, a.step, a.length, a.dim, str(x.shape())));
  }
  shape[a.dim] = a.length;
  return {{shape, x.dtype()}};
}

/// The element's sum is over the windows that hold it, the first one first.
void overlap_add_cpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].numel() == 0) return;
  const auto a = call.as<WindowsAttrs>();
  const Tensor x = call.in[0].contiguous();
  const std::int64_t windows = x.shape()[a.dim];
  std::int64_t inner = 1;
  for (int d = a.dim + 1; d < out[0].dim(); ++d) inner *= out[0].shape()[d];
  const std::int64_t overlap = std::min(windows, (a.size - 1) / a.step + 1);
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, Half> ||
                  std::is_same_v<T, BFloat16>) {
      using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const T* from = x.host<T>();
      T* to = out[0].host<T>();
      cpu::parallel_for(
          out[0].numel() / inner, std::max<std::int64_t>(1, rows::kGrain / (inner * overlap)),
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t r = begin; r < end; ++r) {
              const std::int64_t outer = r / a.length, i = r % a.length;
              const std::int64_t first = i < a.size ? 0 : (i - a.size) / a.step + 1;
              const std::int64_t last = std::min(i / a.step, windows - 1);
              for (std::int64_t k = 0; k < inner; ++k) {
                Sum sum = 0;
                for (std::int64_t j = first; j <= last; ++j)
                  sum += rows::convert<Sum>(from[((outer * windows + j) * inner + k) * a.size + i - j * a.step]);
                to[r * inner + k] = rows::convert<T>(sum);
              }
            }
          });
    }
  });
}

bool overlap_add_gpu(const OpCall& call, std::span<Tensor> out) {
  if (out[0].dtype() == f64) return false;
  if (out[0].numel() == 0) return true;
  const auto a = call.as<WindowsAttrs>();
  const Tensor x = call.in[0].contiguous();
  std::int64_t inner = 1;
  for (int d = a.dim + 1; d < out[0].dim(); ++d) inner *= out[0].shape()[d];
  gpu::Kernel(shaders::overlap_add, call)
      .spec(x.dtype())
      .read(x)
      .write(out[0])
      .u32(out[0].numel(), x.shape()[a.dim], a.size, a.step, a.length, inner)
      .dispatch(gpu::grid(out[0].numel(), 1024));
  return true;
}

TensorList overlap_add_reference(const OpCall& call) {
  const auto a = call.as<WindowsAttrs>();
  const Tensor& x = call.in[0];
  const std::int64_t windows = x.shape()[a.dim];
  Shape merged = x.shape(), shape = x.shape();
  merged.erase(merged.rank() - 1), shape.erase(shape.rank() - 1);
  merged[a.dim] = windows * a.size, shape[a.dim] = a.length;
  const DType sums = x.dtype() == f64 ? f64 : f32;
  const Tensor laid_out = movedim(x.to(sums), -1, a.dim + 1).reshape(merged);
  return {
      index_add(zeros(shape, {sums, x.device()}), a.dim, places_of(windows, a, x.device()), laid_out).to(x.dtype())};
}

TensorList overlap_add_vjp(const VjpCall& call) {
  const auto a = call.as<WindowsAttrs>();
  return {sliding_windows(call.grad[0], a.dim, a.size, a.step)};
}

const OpDef kOverlapAdd = {.name = "overlap_add",
                           .infer = overlap_add_infer,
                           .cpu = overlap_add_cpu,
                           .gpu = overlap_add_gpu,
                           .reference = overlap_add_reference,
                           .vjp = overlap_add_vjp};

}  // namespace

Tensor sliding_windows(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step) {
  detail::require_defined("sliding_windows", x);
  if (x.dim() == 0) throw ShapeError("sliding_windows: got a 0-d tensor; wanted at least one dimension");
  WindowsAttrs a{wrap_dim(dim, x.dim(), "sliding_windows"), size, step};
  // A larger step leaves one window, too, but may not fit the 32 bits of kernels.
  a.step = std::min(step, std::max<std::int64_t>(1, x.shape()[a.dim]));
  return apply1(kSlidingWindows, {x}, Attrs::of(a));
}

Tensor overlap_add(const Tensor& x, std::int64_t dim, std::int64_t step, std::int64_t length) {
  detail::require_defined("overlap_add", x);
  if (x.dim() < 2)
    throw ShapeError(fmt::format("overlap_add: x is {}; wanted windows and their elements", str(x.shape())));
  if (step < 1) throw ShapeError(fmt::format("overlap_add: step is {}; wanted at least 1", step));
  WindowsAttrs a{wrap_dim(dim, x.dim() - 1, "overlap_add"), x.shape().back(), step, length};
  if (length == 0)
    a.length = checked_sum(checked_product(x.shape()[a.dim] - 1, step, "overlap_add"), a.size, "overlap_add");
  a.step = std::min(step, std::max<std::int64_t>(1, a.length));
  return apply1(kOverlapAdd, {x}, Attrs::of(a));
}

std::span<const OpDef* const> ops_in_windows() {
  static const OpDef* const list[] = {&kSlidingWindows, &kOverlapAdd};
  return list;
}

}  // namespace etna
