#include <etna/tensor/capture.h>

#include <array>
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
  std::array<std::byte, 8> bytes{};       ///< value of a CPU tensor
  std::shared_ptr<PendingBytes> pending;  ///< value of a GPU tensor
};

bool PendingValue::ready() const { return state_->pending == nullptr || state_->pending->ready(); }

double PendingValue::get() const {
  return value_of(state_->pending == nullptr ? state_->bytes.data() : state_->pending->get(), state_->dtype);
}

PendingValue read_later(const Tensor& x) {
  if (x.numel() != 1) {
    throw ShapeError(
        fmt::format("read_later: the tensor has {} elements {}, exactly one can be read", x.numel(), str(x.shape())));
  }
  capture_hooks::forbid("read_later", "a value is read on the host");
  PendingValue value;
  value.state_ = std::make_shared<PendingValue::State>();
  value.state_->dtype = x.dtype();
  const std::size_t bytes = item_size(x.dtype());
  if (x.device().is_cpu()) {
    std::memcpy(value.state_->bytes.data(), x.raw_data(), bytes);
  } else {
    const DeviceQueue queue(x.device());
    detail::count_d2h(bytes);
    value.state_->pending = queue.download_later(x.address(), bytes);
  }
  return value;
}

}  // namespace etna
