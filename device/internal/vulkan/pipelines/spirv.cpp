#include <etna/device/internal/vulkan/pipelines/spirv.h>

#include <etna/device/internal/vulkan/pipelines/spirv_ops.h>

#include <unordered_map>
#include <vector>

namespace etna::vulkan {
namespace {

using namespace spirv;
constexpr std::uint32_t kBuiltIn = 11, kBuiltInWorkgroupSize = 25, kLocalSize = 17, kLocalSizeId = 38,
                        kStorageWorkgroup = 4;

class Reader {
 public:
  explicit Reader(std::span<const std::uint32_t> spec) : spec_(spec) {}

  void read(std::span<const std::uint32_t> words) {
    // Five u32s of header, then instructions: length and opcode share an instruction's first u32.
    for (std::size_t at = 5; at < words.size();) {
      std::uint32_t length = words[at] >> 16;
      if (length == 0 || at + length > words.size()) break;
      instruction(words[at] & 0xffffu, words.subspan(at + 1, length - 1));
      at += length;
    }
    for (int axis = 0; axis < 3 && !local_ids_.empty(); ++axis) {
      needs_.local_size[static_cast<std::size_t>(axis)] = value(local_ids_[static_cast<std::size_t>(axis)]);
    }
  }
  ShaderNeeds needs() const { return needs_; }

 private:
  using Operands = std::span<const std::uint32_t>;

  void instruction(std::uint32_t op, Operands w) {
    switch (op) {
      case OpCapability:
        capability(w[0]);
        break;
      case OpExecutionMode:
        if (w[1] == kLocalSize && w.size() >= 5) needs_.local_size = {w[2], w[3], w[4]};
        break;
      case OpExecutionModeId:
        if (w[1] == kLocalSizeId && w.size() >= 5) local_ids_.assign(w.begin() + 2, w.begin() + 5);
        break;
      case OpDecorate:
        if (w.size() >= 3 && w[1] == kSpecId) spec_ids_[w[0]] = w[2];
        if (w.size() >= 3 && w[1] == kBuiltIn && w[2] == kBuiltInWorkgroupSize) workgroup_size_ = w[0];
        break;
      case OpTypeBool:
        sizes_[w[0]] = 4;
        break;
      case OpTypeInt:
      case OpTypeFloat:
        sizes_[w[0]] = w[1] / 8;
        break;
      case OpTypeVector:
      case OpTypeMatrix:
        sizes_[w[0]] = sizes_[w[1]] * w[2];
        break;
      case OpTypeArray:
        sizes_[w[0]] = sizes_[w[1]] * value(w[2]);
        break;
      case OpTypeStruct:
        for (std::uint32_t member : w.subspan(1)) sizes_[w[0]] += sizes_[member];
        break;
      case OpTypePointer:
        pointees_[w[0]] = w[2];
        break;
      case OpVariable:
        if (w[2] == kStorageWorkgroup) needs_.shared_bytes += sizes_[pointees_[w[0]]];
        break;
      case OpConstant:
        values_[w[1]] = w[2];
        break;
      case OpSpecConstant: {
        auto id = spec_ids_.find(w[1]);
        values_[w[1]] = id != spec_ids_.end() && id->second < spec_.size() ? spec_[id->second] : w[2];
        break;
      }
      case OpConstantComposite:
      case OpSpecConstantComposite:
        if (w[1] == workgroup_size_ && w.size() >= 5) local_ids_.assign(w.begin() + 2, w.begin() + 5);
        break;
      case OpSpecConstantOp:
        values_[w[1]] = compute(w[2], w.subspan(3));
        break;
      default:
        break;
    }
  }

  void capability(std::uint32_t number) {
    switch (number) {
      case 9:
        needs_.float16 = true;
        break;
      case 10:
        needs_.float64 = true;
        break;
      case 11:
        needs_.int64 = true;
        break;
      case 22:
        needs_.int16 = true;
        break;
      case 39:
        needs_.int8 = true;
        break;
      case 63:
      case 64:
        needs_.subgroups = true;
        break;
      case 6019:
        needs_.packed_dot = true;
        break;
      case 6022:
        needs_.cooperative_matrix = true;
        break;
      default:
        break;
    }
  }

  std::uint32_t value(std::uint32_t id) const {
    auto found = values_.find(id);
    return found == values_.end() ? 0 : found->second;
  }

  std::uint32_t compute(std::uint32_t op, Operands ids) const {
    auto operand = [&](std::size_t i) { return i < ids.size() ? value(ids[i]) : 0; };
    return spirv::compute(op, operand(0), operand(1), operand(2)).value_or(0);
  }

  std::span<const std::uint32_t> spec_;
  ShaderNeeds needs_;
  std::uint32_t workgroup_size_ = 0;
  std::vector<std::uint32_t> local_ids_;
  std::unordered_map<std::uint32_t, std::uint32_t> spec_ids_, values_, pointees_;
  std::unordered_map<std::uint32_t, std::uint64_t> sizes_;
};

}  // namespace

ShaderNeeds shader_needs(std::span<const std::uint32_t> words, std::span<const std::uint32_t> spec) {
  Reader reader(spec);
  reader.read(words);
  return reader.needs();
}

ShaderDeclarations shader_declarations(std::span<const std::uint32_t> words) {
  ShaderDeclarations found;
  for (std::size_t at = 5; at < words.size();) {
    const std::uint32_t length = words[at] >> 16, op = words[at] & 0xffffu;
    if (length == 0 || at + length > words.size() || op == OpFunction) break;
    if (op == OpCapability && length > 1) found.capabilities.push_back(words[at + 1]);
    if (op == OpExtension) {
      std::string name;  // four characters in each u32, the first in the lowest byte
      for (std::uint32_t word : words.subspan(at + 1, length - 1))
        for (; word != 0; word >>= 8) name += static_cast<char>(word & 0xffu);
      found.extensions.push_back(std::move(name));
    }
    at += length;
  }
  return found;
}

std::vector<std::uint32_t> rolled_loops(std::span<const std::uint32_t> words, int inner) {
  constexpr std::uint32_t kUnroll = 1, kDontUnroll = 2;
  struct Loop {
    std::size_t at;
    std::uint32_t end;
    int inner = 0;
  };
  std::vector<std::uint32_t> out(words.begin(), words.end());
  std::vector<Loop> open;
  for (std::size_t at = 5; at < out.size();) {
    const std::uint32_t length = out[at] >> 16, op = out[at] & 0xffffu;
    if (length == 0 || at + length > out.size()) break;
    if (op == spirv::OpLabel && !open.empty() && out[at + 1] == open.back().end) {
      std::uint32_t& control = out[open.back().at + 3];
      if (open.back().inner >= inner) control = (control & ~kUnroll) | kDontUnroll;
      open.pop_back();
    } else if (op == spirv::OpLoopMerge) {
      for (Loop& loop : open) ++loop.inner;
      open.push_back({at, out[at + 1]});
    }
    at += length;
  }
  return out;
}

}  // namespace etna::vulkan
