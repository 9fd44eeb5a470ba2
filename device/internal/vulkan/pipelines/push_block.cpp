#include <etna/device/internal/vulkan/pipelines/push_block.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/vulkan/pipelines/spirv_ops.h>

namespace etna::vulkan {
namespace {

using namespace spirv;

constexpr std::uint32_t kOffset = 35, kArrayStride = 6, kPushConstant = 9, kHeaderWords = 5;

/// A number or an address of the block.
struct Leaf {
  std::uint32_t offset, bytes;
  bool address;  ///< two words that may be one
};

class PushBlock {
 public:
  explicit PushBlock(std::span<const std::uint32_t> words) {
    for (std::size_t at = kHeaderWords; at < words.size();) {
      const std::uint32_t count = words[at] >> 16;
      if (count == 0 || at + count > words.size()) break;
      read(words.subspan(at, count));
      at += count;
    }
    const auto pointer = types_.find(block_);
    if (pointer != types_.end()) add(pointer->second[3], 0);
  }

  const std::vector<Leaf>& leaves() const { return leaves_; }
  std::uint32_t bytes() const {
    std::uint32_t end = 0;
    for (const Leaf& leaf : leaves_) end = std::max(end, leaf.offset + leaf.bytes);
    return end;
  }

 private:
  using Words = std::span<const std::uint32_t>;

  void read(Words w) {
    switch (w[0] & 0xffff) {
      case OpTypeInt:
      case OpTypeFloat:
      case OpTypeVector:
      case OpTypeArray:
      case OpTypeStruct:
      case OpTypePointer:
        types_[w[1]] = w;
        break;
      case OpConstant:
        constants_[w[2]] = w[3];
        break;
      case OpVariable:
        if (w[3] == kPushConstant) block_ = w[1];
        break;
      case OpDecorate:
        if (w[2] == kArrayStride) strides_[w[1]] = w[3];
        break;
      case OpMemberDecorate:
        if (w[3] == kOffset) offsets_[std::uint64_t{w[1]} << 32 | w[2]] = w[4];
        break;
      default:
        break;
    }
  }

  /// Adds what a type has at an offset.
  void add(std::uint32_t id, std::uint32_t offset) {
    const auto found = types_.find(id);
    if (found == types_.end()) return;
    const Words w = found->second;
    switch (w[0] & 0xffff) {
      case OpTypeInt:
      case OpTypeFloat:
        leaves_.push_back({offset, w[2] / 8, w[2] == 64});
        break;
      case OpTypeVector: {
        const auto element = types_.find(w[2]);
        const std::uint32_t size = element == types_.end() ? 4 : element->second[2] / 8;
        leaves_.push_back({offset, w[3] * size, w[3] * size == 8});
        break;
      }
      case OpTypePointer:
        leaves_.push_back({offset, 8, true});
        break;
      case OpTypeArray:
        for (std::uint32_t i = 0; i < constants_[w[3]]; ++i) add(w[2], offset + i * strides_[id]);
        break;
      default:
        for (std::uint32_t i = 2; i < w.size(); ++i) add(w[i], offset + offsets_[std::uint64_t{id} << 32 | (i - 2)]);
    }
  }

  std::unordered_map<std::uint32_t, Words> types_;
  std::unordered_map<std::uint32_t, std::uint32_t> constants_, strides_;
  std::unordered_map<std::uint64_t, std::uint32_t> offsets_;
  std::uint32_t block_ = 0;
  std::vector<Leaf> leaves_;
};

}  // namespace

std::string wrong_arguments(std::span<const std::uint32_t> words, const Arguments& arguments) {
  const PushBlock block(words);
  if (arguments.bytes().size() != block.bytes())
    return fmt::format("{} bytes of arguments; the shader declares {}", arguments.bytes().size(), block.bytes());
  for (const Arguments::Address& address : arguments.addresses()) {
    const bool declared = std::any_of(block.leaves().begin(), block.leaves().end(),
                                      [&](const Leaf& leaf) { return leaf.offset == address.offset && leaf.address; });
    if (!declared) return fmt::format("an address at byte {}, where the shader declares a number", address.offset);
  }
  return {};
}

}  // namespace etna::vulkan
