#include <etna/device/internal/webgpu/heap.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/device/internal/webgpu/javascript.h>

namespace etna::webgpu {
namespace {

constexpr std::uint64_t kFirstSize = std::uint64_t{32} << 20;
constexpr std::uint64_t kAlign = 256;

}  // namespace

bool Heap::allocate(std::size_t bytes, Segment& out, std::string& why) {
  const std::uint64_t wanted = (std::uint64_t{bytes} + kAlign - 1) / kAlign * kAlign;
  // The smallest hole that is large enough.
  auto best = holes_.end();
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second >= wanted && (best == holes_.end() || hole->second < best->second)) best = hole;
  }
  std::uint64_t address = end_;
  if (best != holes_.end()) {
    address = best->first;
    const std::uint64_t rest = best->second - wanted;
    holes_.erase(best);
    if (rest > 0) holes_.emplace(address + wanted, rest);
  } else {
    if (!reserve(end_ + wanted, why)) return false;
    end_ += wanted;
  }
  used_ += wanted;
  out = {.address = address, .bytes = static_cast<std::size_t>(wanted)};
  return true;
}

void Heap::release(const Segment& segment) {
  used_ -= segment.bytes;
  std::uint64_t first = segment.address, last = first + segment.bytes;
  auto behind = holes_.lower_bound(first);
  if (behind != holes_.end() && behind->first == last) {
    last += behind->second;
    behind = holes_.erase(behind);
  }
  if (behind != holes_.begin()) {
    if (auto before = std::prev(behind); before->first + before->second == first) {
      first = before->first;
      holes_.erase(before);
    }
  }
  if (last == end_)
    end_ = first;
  else
    holes_.emplace(first, last - first);
}

/// Makes the buffer at least that large: twice as large as before where that can be had.
bool Heap::reserve(std::uint64_t bytes, std::string& why) {
  if (bytes <= size_) return true;
  if (bytes > limit_) {
    why = fmt::format("WebGPU binds at most {} here", readable_bytes(limit_));
    return false;
  }
  const std::uint64_t generous = std::min(std::max({bytes, 2 * size_, kFirstSize}), limit_);
  for (std::uint64_t size : {generous, bytes}) {
    if (javascript::grow(static_cast<std::size_t>(size))) {
      size_ = size;
      return true;
    }
  }
  why = fmt::format("WebGPU has no {} in one buffer", readable_bytes(bytes));
  return false;
}

}  // namespace etna::webgpu
