#pragma once

#include <cstddef>

namespace etna {

/// Bytes that end where memory ends, so that reading further is a fault.
class BytesAtTheEnd {
 public:
  explicit BytesAtTheEnd(std::size_t bytes);
  ~BytesAtTheEnd();
  BytesAtTheEnd(const BytesAtTheEnd&) = delete;
  BytesAtTheEnd& operator=(const BytesAtTheEnd&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* start_;
  std::size_t room_;
  std::byte* data_;
};

}  // namespace etna
