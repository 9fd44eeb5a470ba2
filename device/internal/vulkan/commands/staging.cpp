#include <etna/device/internal/vulkan/commands/staging.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/vulkan/commands/command_queue.h>
#include <etna/shaders/shaders.h>

namespace etna::vulkan {
namespace {

BufferSpan part(const BufferSpan& whole, std::size_t at, std::size_t bytes) {
  return {whole.buffer, whole.offset + at, {whole.range.address + at, bytes}};
}

}  // namespace

void Staging::make(Buffer& buffer, BufferUse use, std::size_t bytes) {
  if (buffer.handle) return;
  if (VkResult result = make_buffer(device_, use, bytes, buffer)) {
    throw OutOfMemory(fmt::format("{}: no {} MiB of host memory that the GPU can see for staging ({})",
                                  device_.device.str(), bytes >> 20, str(result)));
  }
}

/// Allocates contiguous bytes of the ring; waits for copies that still read them. @returns their offset.
std::size_t Staging::take(std::size_t bytes) {
  std::uint64_t begin = (head_ + 15) / 16 * 16;
  if (begin % kRing + bytes > kRing) begin = (begin / kRing + 1) * kRing;
  std::uint64_t end = begin + bytes;
  while (!in_use_.empty() && in_use_.front().begin + kRing < end) {
    queue_.wait(in_use_.front().mark);
    in_use_.pop_front();
  }
  head_ = end;
  return begin % kRing;
}

/// Copies from the ring to the device.
void Staging::copy(std::size_t offset, BufferSpan to) {
  const std::size_t bytes = to.range.bytes;
  if (bytes > kSmall || bytes % 4 != 0 || to.range.address % 4 != 0) {
    queue_.copy("upload", {ring_.handle, offset, {}}, to);
    return;
  }
  const std::uint32_t words = static_cast<std::uint32_t>(bytes / 4);
  Arguments arguments;
  arguments.read({ring_.address + offset, {}});  // the ring belongs to no tensor
  arguments.write({to.range.address, to.range});
  arguments.number(words);
  bool made = false;
  Pipeline& pipeline = pipelines_.get(shaders::copy_words, {}, "upload", made);
  if (made) queue_.count_pipeline();
  queue_.upload(
      {.shader = shaders::copy_words, .op = "upload", .arguments = arguments, .groups = {(words + 255) / 256, 1, 1}},
      pipeline);
}

void Staging::upload(const std::byte* source, BufferSpan to) {
  make(ring_, BufferUse::upload, kRing);
  for (std::size_t at = 0; at < to.range.bytes; at += kPiece) {
    std::size_t bytes = std::min<std::size_t>(kPiece, to.range.bytes - at);
    std::size_t offset = take(bytes);
    std::memcpy(ring_.host + offset, source + at, bytes);
    copy(offset, part(to, at, bytes));
    in_use_.push_back({head_ - bytes, queue_.mark()});
    unsubmitted_ += bytes;
    if (unsubmitted_ >= kPiece) {
      queue_.flush();
      unsubmitted_ = 0;
    }
  }
}

void Staging::download(BufferSpan from, std::byte* target) {
  make(down_, BufferUse::download, 2 * kPiece);
  // Two halves: while the host empties one, the GPU fills the other.
  std::uint64_t marks[2];
  std::size_t pieces = (from.range.bytes + kPiece - 1) / kPiece;
  auto size = [&](std::size_t piece) { return std::min<std::size_t>(kPiece, from.range.bytes - piece * kPiece); };
  auto start = [&](std::size_t piece) {
    BufferSpan half{down_.handle, (piece % 2) * kPiece, {}};
    queue_.copy("download", part(from, piece * kPiece, size(piece)), half);
    queue_.make_host_visible();
    marks[piece % 2] = queue_.mark();
    queue_.flush();
  };
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    if (piece == 0) start(0);
    if (piece + 1 < pieces) start(piece + 1);
    queue_.wait(marks[piece % 2]);
    std::memcpy(target + piece * kPiece, down_.host + (piece % 2) * kPiece, size(piece));
  }
}

}  // namespace etna::vulkan
