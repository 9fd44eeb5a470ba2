#include <etna/tensor/capture.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/internal/device_queue.h>
#include <etna/device/memory.h>
#include <etna/tensor/internal/capture_hooks.h>

namespace etna {
namespace {

double value_of(const std::byte* bytes, DType dtype) {
  return visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      return static_cast<double>(static_cast<float>(value));
    else
      return static_cast<double>(value);
  });
}

}  // namespace

struct PendingValue::State {
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;           ///< of a CPU tensor
  std::shared_ptr<PendingBytes> pending;  ///< of a GPU tensor

  /// @param x contiguous, of at most kMostBytesLater on a GPU
  explicit State(const Tensor& x) : dtype(x.dtype()) {
    const std::size_t size = static_cast<std::size_t>(x.numel()) * item_size(dtype);
    if (x.device().is_cpu()) {
      const auto* data = static_cast<const std::byte*>(x.raw_data());
      bytes.assign(data, data + size);
    } else {
      const DeviceQueue queue(x.device());
      detail::count_d2h(size);
      pending = queue.download_later(x.address(), size);
    }
  }
};

bool PendingValue::ready() const { return state_->pending == nullptr || state_->pending->ready(); }

double PendingValue::get() const {
  const std::byte* bytes = state_->pending == nullptr ? state_->bytes.data() : state_->pending->get();
  return value_of(bytes + index_ * item_size(state_->dtype), state_->dtype);
}

PendingValue read_later(const Tensor& x) {
  if (x.numel() != 1) {
    throw ShapeError(
        fmt::format("read_later: the tensor has {} elements {}, exactly one can be read", x.numel(), str(x.shape())));
  }
  return read_each_later(x)[0];
}

std::vector<PendingValue> read_each_later(const Tensor& x) {
  capture_hooks::forbid("read_later", "a value is read on the host");
  const Tensor packed = x.contiguous();
  const auto most = static_cast<std::int64_t>(kMostBytesLater / item_size(x.dtype()));
  std::vector<PendingValue> values(static_cast<std::size_t>(x.numel()));
  for (std::int64_t first = 0; first < x.numel(); first += most) {
    const std::int64_t last = std::min(first + most, x.numel());
    const auto state = std::make_shared<const PendingValue::State>(
        x.numel() <= most ? packed : packed.flatten().slice(0, first, last));
    for (std::int64_t i = first; i < last; ++i) {
      PendingValue& value = values[static_cast<std::size_t>(i)];
      value.state_ = state;
      value.index_ = static_cast<std::size_t>(i - first);
    }
  }
  return values;
}

}  // namespace etna
