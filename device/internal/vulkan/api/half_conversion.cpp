#include <etna/device/internal/vulkan/api/half_conversion.h>

#include <cstddef>

namespace etna::vulkan {
namespace {

// Constants of the SPIR-V specification. Both execution modes are core since version 1.4.
enum Op : std::uint32_t { OpEntryPoint = 15, OpExecutionMode = 16, OpCapability = 17, OpDecorate = 71 };
constexpr std::uint32_t kSpecId = 1, kVersion14 = 0x10400, kBits = 16;

struct Demand {
  std::uint32_t capability, mode;
};
constexpr Demand kDenormPreserve{4464, 4459}, kRoundingModeRTE{4467, 4462};

}  // namespace

std::vector<std::uint32_t> demanding(HalfConversion promised, std::span<const std::uint32_t> words) {
  if (promised == HalfConversion::any || words.size() < 5 || words[1] < kVersion14) return {};
  std::size_t capabilities_end = 5, entries_end = 0;
  std::uint32_t entry = 0;
  bool converts = false;
  // Five u32s of header, then instructions: length and opcode share an instruction's first u32.
  for (std::size_t at = 5; at < words.size();) {
    const std::uint32_t length = words[at] >> 16, op = words[at] & 0xffffu;
    if (length == 0 || at + length > words.size()) return {};
    if (op == OpCapability) capabilities_end = at + length;
    if (op == OpEntryPoint) entry = words[at + 2], entries_end = at + length;
    if (op == OpDecorate && length == 4 && words[at + 2] == kSpecId) {
      converts = converts || words[at + 3] == kHalfConversionId;
    }
    at += length;
  }
  if (!converts || entries_end == 0) return {};
  std::vector<std::uint32_t> capabilities, modes;
  auto demand = [&](const Demand& d) {
    capabilities.insert(capabilities.end(), {2u << 16 | OpCapability, d.capability});
    modes.insert(modes.end(), {4u << 16 | OpExecutionMode, entry, d.mode, kBits});
  };
  demand(kRoundingModeRTE);
  if (promised == HalfConversion::rounded) demand(kDenormPreserve);
  std::vector<std::uint32_t> out(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(capabilities_end));
  out.insert(out.end(), capabilities.begin(), capabilities.end());
  out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(capabilities_end),
             words.begin() + static_cast<std::ptrdiff_t>(entries_end));
  out.insert(out.end(), modes.begin(), modes.end());
  out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(entries_end), words.end());
  return out;
}

}  // namespace etna::vulkan
