#include <etna/device/internal/webgpu/queue.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::webgpu {
namespace {

constexpr std::size_t kCommandsABatch = 128;
/// Submits that may be under way: enough to keep a GPU busy, few enough to bound what the browser keeps for them.
constexpr std::size_t kMostInFlight = 8;
constexpr std::uint32_t kThreadsAGroup = 256;  ///< of the copies and fills
constexpr std::uint32_t kMostGroups = 4096;    ///< of these; each thread then takes several words

std::array<std::uint32_t, 3> groups_for(std::size_t words) {
  const std::size_t groups = (words + kThreadsAGroup - 1) / kThreadsAGroup;
  return {static_cast<std::uint32_t>(std::min<std::size_t>(groups, kMostGroups)), 1, 1};
}

std::span<const std::byte> bytes_of(std::span<const std::uint32_t> words) { return std::as_bytes(words); }

/// Addresses of the heap have 32 bits.
std::uint32_t low(std::uint64_t address) { return static_cast<std::uint32_t>(address); }

}  // namespace

void Batch::add(std::uint32_t pipeline, const std::array<std::uint32_t, 3>& groups,
                std::span<const std::byte> arguments) {
  const std::size_t at = blocks.size();
  commands.push_back({pipeline, {groups[0], groups[1], groups[2]}, static_cast<std::uint32_t>(at / kBlockBytes)});
  blocks.resize(at + kBlockBytes);  // with zeros, which kernels rely on
  std::memcpy(blocks.data() + at, arguments.data(), arguments.size());
}

void Batch::clear() {
  commands.clear();
  blocks.clear();
}

void Queue::require_healthy() {
  if (const std::string lost = javascript::lost(); !lost.empty()) {
    open_.clear();
    throw DeviceLost(
        fmt::format("webgpu:0: the browser lost the GPU ({}); its tensors are gone, load the page again", lost));
  }
}

std::uint32_t Queue::pipeline(const char* kernel, std::span<const std::uint32_t> constants, std::string_view op) {
  key_.kernel = kernel;
  key_.constants.assign(constants.begin(), constants.end());
  if (auto found = pipelines_.find(key_); found != pipelines_.end()) return found->second;
  if (const std::string why = javascript::missing(key_.kernel); !why.empty()) {
    throw DeviceError(fmt::format("{}: WebGPU has no kernel {}: {}", op, kernel, why));
  }
  const std::uint32_t made = javascript::pipeline(key_.kernel, constants, std::string(op));
  ++stats_.pipelines;
  pipelines_.emplace(key_, made);
  return made;
}

void Queue::dispatch(const gpu::Dispatch& d) {
  open_.add(pipeline(d.shader.name, d.spec, d.op), d.groups, d.arguments.bytes());
  ++stats_.dispatches;
  if (open_.commands.size() >= kCommandsABatch) flush();
}

void Queue::add_copy(Batch& batch, std::uint64_t from, std::uint64_t to, std::size_t bytes) {
  const bool words = from % 4 == 0 && to % 4 == 0 && bytes % 4 == 0;
  const auto count = static_cast<std::uint32_t>(words ? bytes / 4 : bytes);
  const std::uint32_t arguments[] = {low(from), 0, low(to), 0, count};
  batch.add(pipeline(words ? "etna_copy_words" : "etna_copy_bytes", {}, "copy"), groups_for(bytes / 4 + 2),
            bytes_of(arguments));
}

void Queue::add_fill(Batch& batch, std::uint64_t to, std::size_t bytes, std::uint32_t word, std::uint32_t mask) {
  const std::uint32_t arguments[] = {low(to), 0, static_cast<std::uint32_t>(bytes / 4), word, mask};
  batch.add(pipeline("etna_fill", {}, "fill"), groups_for(bytes / 4), bytes_of(arguments));
}

void Queue::copy(std::uint64_t from, std::uint64_t to, std::size_t bytes) { add_copy(open_, from, to, bytes); }
void Queue::fill(std::uint64_t to, std::size_t bytes, std::uint32_t word) { add_fill(open_, to, bytes, word); }

void Queue::upload(std::uint64_t to, std::span<const std::byte> bytes) {
  // WebGPU writes whole words; the bytes of a word that are not ours stay by a fill under a mask.
  const auto part = [&](std::size_t begin, std::size_t count) {
    const std::uint64_t at = to + begin;
    const auto shift = static_cast<std::uint32_t>(at % 4) * 8;
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + begin, count);
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << (8 * count)) - 1);
    add_fill(open_, at - at % 4, 4, word << shift, mask << shift);
  };
  const std::size_t head = std::min<std::size_t>((4 - to % 4) % 4, bytes.size());
  const std::size_t tail = (bytes.size() - head) % 4;
  if (head > 0) part(0, head);
  if (tail > 0) part(bytes.size() - tail, tail);
  const std::span<const std::byte> words = bytes.subspan(head, bytes.size() - head - tail);
  if (words.empty()) return;
  flush();
  javascript::write(to + head, words);
}

void Queue::download(std::uint64_t from, std::span<std::byte> bytes) {
  finish_read(start_read(from, bytes.size()), from, bytes);
}

std::uint32_t Queue::start_read(std::uint64_t from, std::size_t bytes) {
  flush();
  const std::uint64_t first = from / 4 * 4, last = (from + bytes + 3) / 4 * 4;
  return javascript::start_read({first, static_cast<std::size_t>(last - first)}, index_errors_.range());
}

void Queue::finish_read(std::uint32_t read, std::uint64_t from, std::span<std::byte> bytes) {
  const std::size_t skipped = from % 4, behind = (4 - (from + bytes.size()) % 4) % 4;
  std::vector<std::byte> index_errors(index_errors_.range().bytes);
  std::string failed;
  if (skipped == 0 && behind == 0) {
    failed = javascript::finish_read(read, bytes, index_errors);
  } else {
    std::vector<std::byte> words(skipped + bytes.size() + behind);
    failed = javascript::finish_read(read, words, index_errors);
    std::memcpy(bytes.data(), words.data() + skipped, bytes.size());
  }
  require_healthy();
  if (const std::string error = javascript::take_error(); !error.empty()) {
    throw DeviceError(fmt::format("webgpu:0: work that was queued earlier failed: {}", error));
  }
  if (!failed.empty()) throw DeviceError(fmt::format("webgpu:0: a read failed: {}", failed));
  index_errors_.check(index_errors);
}

void Queue::finish_building() {
  if (!javascript::building()) return;
  const std::string failed = javascript::finish_building();
  if (failed.empty()) return;
  // Which ones, only the text tells; asking again builds the others from what the browser keeps of them.
  pipelines_.clear();
  open_.clear();
  throw DeviceError(failed);
}

void Queue::submitted() {
  ++stats_.submits;
  while (javascript::in_flight() > kMostInFlight) javascript::finish_oldest();
}

void Queue::flush() {
  require_healthy();
  if (open_.commands.empty()) return;
  finish_building();
  javascript::submit(open_.commands, open_.blocks);
  open_.clear();
  submitted();
}

void Queue::run(std::uint32_t program, std::span<const javascript::EncodedDispatch> commands) {
  flush();
  finish_building();
  javascript::run_program(program, commands);
  stats_.dispatches += commands.size();
  submitted();
}

void Queue::finish() {
  flush();
  if (index_errors_.range().bytes > 0) {
    std::byte none[4];
    return download(index_errors_.range().address, none);
  }
  javascript::finish();
  require_healthy();
}

}  // namespace etna::webgpu
