#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <etna/device/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/graph/session.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/vulkan.h>

// Columns of a matrix that begin elsewhere at every step. slice() would do for one step; its place would be the same at every
// replay. Elements travel as bytes.
namespace etna {
namespace {

struct WindowAttrs {
  std::int64_t start, length;
};

void check_shape(const Shape& x, std::int64_t length) {
  if (x.rank() != 2) throw ShapeError(fmt::format("window: x is {}, it must be a matrix [R, N]", str(x)));
  if (length < 1 || length > x[1]) {
    throw ShapeError(
        fmt::format("window: the length {} is outside [1, {}], the columns of x {}", length, x[1], str(x)));
  }
}

std::int64_t checked_start(std::int64_t start, const Shape& x, std::int64_t length) {
  if (start < 0 || start > x[1] - length) {
    throw ShapeError(fmt::format("window: {} columns from {} on do not lie within x {}; the start must be in [0, {}]",
                                 length, start, str(x), x[1] - length));
  }
  return start;
}

std::vector<OutputSpec> infer(const OpCall& call) {
  const Tensor& x = call.in[0];
  auto [start, length] = call.as<WindowAttrs>();
  check_shape(x.shape(), length);
  checked_start(start, x.shape(), length);
  return {{{x.shape()[0], length}, x.dtype()}};
}

void cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor& x = call.in[0];
  auto [start, length] = call.as<WindowAttrs>();
  if (out[0].numel() == 0) return;
  const auto item = static_cast<std::int64_t>(item_size(x.dtype()));
  const std::int64_t row = x.strides()[0] * item, column = x.strides()[1] * item, width = length * item;
  const auto* from = static_cast<const std::byte*>(x.raw_data()) + start * column;
  auto* to = static_cast<std::byte*>(out[0].raw_data());
  cpu::parallel_for(x.shape()[0], std::max<std::int64_t>(1, 65536 / width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (column == item) {
        std::memcpy(to + r * width, from + r * row, static_cast<std::size_t>(width));
        continue;
      }
      for (std::int64_t j = 0; j < length; ++j)
        std::memcpy(to + r * width + j * item, from + r * row + j * column, static_cast<std::size_t>(item));
    }
  });
}

struct Push {
  vulkan::Word64 y, x;
  vulkan::Word64 state;  ///< where the kernel finds the start instead; 0: here
  std::uint32_t start, n, width, row, column;
};

void write_start(const Attrs& attrs, std::byte* to) {
  auto start = static_cast<std::uint32_t>(attrs.as<WindowAttrs>().start);
  std::memcpy(to, &start, sizeof(start));
}

bool on_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor &x = call.in[0], &y = out[0];
  auto [start, length] = call.as<WindowAttrs>();
  if (y.numel() == 0) return true;
  const auto item = static_cast<std::uint32_t>(item_size(x.dtype()));
  // All of x is read, as far as the recorder knows: where, is up to the step.
  if (vulkan::range(x).bytes / item > std::uint64_t{0x7fffffff}) {
    throw ShapeError(
        fmt::format("window: the elements of x {} span more than 2^31, which kernels do not index; cut it "
                    "into matrices of fewer rows",
                    str(x.shape())));
  }
  Push push{y.address(),
            x.address(),
            recording::state_address(call, sizeof(std::uint32_t), write_start),
            vulkan::word(start),
            vulkan::word(y.numel()),
            vulkan::word(length),
            vulkan::word(x.strides()[0]),
            vulkan::word(x.strides()[1])};
  vulkan::launch(shaders::window, call, {item}, push, vulkan::grid((y.numel() + 255) / 256), {&x}, {&y});
  return true;
}

// No reference and no vjp: a gradient would have to follow the start from step to step as well.
const OpDef kWindow = {.name = "window", .infer = infer, .cpu = cpu, .gpu = on_gpu};

}  // namespace

Tensor window(const Tensor& x, const std::function<std::int64_t()>& start, std::int64_t length) {
  check_shape(x.shape(), length);
  // A replay does not come by infer(), so the start is checked where it is asked for, before anything is queued.
  auto ask = [shape = x.shape(), start, length] {
    NotCaptured now;
    return Attrs::of(WindowAttrs{checked_start(start(), shape, length), length});
  };
  return apply1(kWindow, {x}, recording::each_step_attrs(std::move(ask)));
}

std::span<const OpDef* const> ops_in_window() {
  static const OpDef* const list[] = {&kWindow};
  return list;
}

}  // namespace etna
