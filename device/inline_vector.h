#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace etna {

/// A growing list that stores its first N elements in the object: a short list allocates nothing.
template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return heap_.empty() ? inline_.data() : heap_.data(); }
  T* data() { return heap_.empty() ? inline_.data() : heap_.data(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& operator[](std::size_t i) { return data()[i]; }

  void push_back(const T& value) { append(std::span(&value, 1)); }
  void append(std::span<const T> values) {
    if (heap_.empty() && size_ + values.size() <= N) {
      std::copy(values.begin(), values.end(), inline_.begin() + static_cast<std::ptrdiff_t>(size_));
    } else {
      if (heap_.empty()) heap_.assign(inline_.begin(), inline_.begin() + static_cast<std::ptrdiff_t>(size_));
      heap_.insert(heap_.end(), values.begin(), values.end());
    }
    size_ += values.size();
  }
  void clear() {
    heap_.clear();
    size_ = 0;
  }

  operator std::span<const T>() const { return {data(), size_}; }

 private:
  std::array<T, N> inline_;
  std::vector<T> heap_;  ///< all elements, once there are more than N
  std::size_t size_ = 0;
};

}  // namespace etna
