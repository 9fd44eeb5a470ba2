#include <etna/device/internal/vulkan/pipelines/spirv_ops.h>

namespace etna::vulkan::spirv {

std::optional<std::uint32_t> compute(std::uint32_t op, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const auto sa = static_cast<std::int32_t>(a), sb = static_cast<std::int32_t>(b);
  switch (op) {
    case OpIAdd:
      return a + b;
    case OpISub:
      return a - b;
    case OpIMul:
      return a * b;
    case OpUDiv:
      return b != 0 ? std::optional(a / b) : std::nullopt;
    case OpSDiv:
      if (b == 0) return std::nullopt;
      return b == ~0u ? 0u - a : static_cast<std::uint32_t>(sa / sb);  // the lowest number by -1 has no int
    case OpUMod:
      return b != 0 ? std::optional(a % b) : std::nullopt;
    case OpShiftRightLogical:
      return b < 32 ? std::optional(a >> b) : std::nullopt;
    case OpShiftLeftLogical:
      return b < 32 ? std::optional(a << b) : std::nullopt;
    case OpBitwiseOr:
      return a | b;
    case OpBitwiseAnd:
      return a & b;
    case OpLogicalEqual:
      return a == b;
    case OpLogicalNotEqual:
      return a != b;
    case OpLogicalOr:
      return a | b;
    case OpLogicalAnd:
      return a & b;
    case OpLogicalNot:
      return a ^ 1u;
    case OpSelect:
      return a != 0 ? b : c;
    case OpIEqual:
      return a == b;
    case OpINotEqual:
      return a != b;
    case OpUGreaterThan:
      return a > b;
    case OpSGreaterThan:
      return sa > sb;
    case OpUGreaterThanEqual:
      return a >= b;
    case OpSGreaterThanEqual:
      return sa >= sb;
    case OpULessThan:
      return a < b;
    case OpSLessThan:
      return sa < sb;
    case OpULessThanEqual:
      return a <= b;
    case OpSLessThanEqual:
      return sa <= sb;
    default:
      return std::nullopt;
  }
}

}  // namespace etna::vulkan::spirv
