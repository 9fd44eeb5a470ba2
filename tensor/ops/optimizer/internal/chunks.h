#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops/rows/internal/rows.h>

/// Many tensors as one list of equally sized chunks.
namespace etna::optimizer {

/// Elements of a chunk: the work of one workgroup, or the unit of work of a CPU thread.
inline constexpr std::int64_t kChunk = 4096;

/// Divides tensors into chunks: a chunk lies within one tensor, and every tensor starts a chunk.
class Chunks {
 public:
  explicit Chunks(std::int64_t size) : size_(size) {}
  void add(std::int64_t elements) {
    elements_.push_back(elements);
    first_.push_back(count_);
    count_ += (elements + size_ - 1) / size_;
  }
  std::int64_t count() const { return count_; }

  /// Calls body(chunk, tensor, begin, end) for every chunk, on several threads.
  template <typename Body>
  void parallel(const Body& body) const {
    cpu::parallel_for(count_, 4, [&](std::int64_t begin, std::int64_t end) {
      auto at = static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), begin) - first_.begin() - 1);
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        while (at + 1 < first_.size() && first_[at + 1] <= chunk) ++at;
        std::int64_t from = (chunk - first_[at]) * size_;
        body(chunk, at, from, std::min(from + size_, elements_[at]));
      }
    });
  }

 private:
  std::int64_t size_, count_ = 0;
  std::vector<std::int64_t> elements_, first_;
};

/// Elements [begin, end) of a contiguous floating tensor on the CPU as S (float or double): in place, or converted into
/// `buffer`.
template <typename S>
S* load(const Tensor& x, std::int64_t begin, std::int64_t end, S* buffer) {
  switch (x.dtype()) {
    case DType::f64:
    case DType::f32:
      if (x.dtype() == dtype_of<S>()) return x.host<S>() + begin;
      if (x.dtype() == f64)
        std::copy(x.host<double>() + begin, x.host<double>() + end, buffer);
      else
        std::copy(x.host<float>() + begin, x.host<float>() + end, buffer);
      return buffer;
    case DType::f16:
      std::transform(x.host<Half>() + begin, x.host<Half>() + end, buffer,
                     [](Half h) { return static_cast<float>(h); });
      return buffer;
    default:
      rows::convert_run(x.host<BFloat16>() + begin, buffer, end - begin);
      return buffer;
  }
}

/// Writes values back, rounded, to where load() read them.
template <typename S>
void store(const Tensor& x, std::int64_t begin, std::int64_t end, const S* values) {
  std::int64_t n = end - begin;
  switch (x.dtype()) {
    case DType::f64:
    case DType::f32:
      if (x.dtype() == dtype_of<S>()) return;
      if (x.dtype() == f64)
        std::copy_n(values, n, x.host<double>() + begin);
      else
        std::transform(values, values + n, x.host<float>() + begin, [](S v) { return static_cast<float>(v); });
      return;
    case DType::f16:
      std::transform(values, values + n, x.host<Half>() + begin, [](S v) { return Half(static_cast<float>(v)); });
      return;
    default:
      rows::convert_run(values, x.host<BFloat16>() + begin, n);
  }
}

}  // namespace etna::optimizer
