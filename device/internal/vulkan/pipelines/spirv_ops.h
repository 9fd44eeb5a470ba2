#pragma once

#include <cstdint>
#include <optional>

namespace etna::vulkan::spirv {

/// Opcodes of the SPIR-V specification that the readers of modules know.
enum Op : std::uint32_t {
  OpUndef = 1,
  OpName = 5,
  OpMemberName = 6,
  OpExtension = 10,
  OpEntryPoint = 15,
  OpExecutionMode = 16,
  OpCapability = 17,
  OpTypeBool = 20,
  OpTypeInt = 21,
  OpTypeFloat = 22,
  OpTypeVector = 23,
  OpTypeMatrix = 24,
  OpTypeArray = 28,
  OpTypeStruct = 30,
  OpTypePointer = 32,
  OpConstantTrue = 41,
  OpConstantFalse = 42,
  OpConstant = 43,
  OpConstantComposite = 44,
  OpSpecConstantTrue = 48,
  OpSpecConstantFalse = 49,
  OpSpecConstant = 50,
  OpSpecConstantComposite = 51,
  OpSpecConstantOp = 52,
  OpFunction = 54,
  OpFunctionEnd = 56,
  OpFunctionCall = 57,
  OpVariable = 59,
  OpDecorate = 71,
  OpMemberDecorate = 72,
  OpIAdd = 128,
  OpISub = 130,
  OpIMul = 132,
  OpUDiv = 134,
  OpSDiv = 135,
  OpUMod = 137,
  OpLogicalEqual = 164,
  OpLogicalNotEqual = 165,
  OpLogicalOr = 166,
  OpLogicalAnd = 167,
  OpLogicalNot = 168,
  OpSelect = 169,
  OpIEqual = 170,
  OpINotEqual = 171,
  OpUGreaterThan = 172,
  OpSGreaterThan = 173,
  OpUGreaterThanEqual = 174,
  OpSGreaterThanEqual = 175,
  OpULessThan = 176,
  OpSLessThan = 177,
  OpULessThanEqual = 178,
  OpSLessThanEqual = 179,
  OpShiftRightLogical = 194,
  OpShiftLeftLogical = 196,
  OpBitwiseOr = 197,
  OpBitwiseAnd = 199,
  OpPhi = 245,
  OpLoopMerge = 246,
  OpSelectionMerge = 247,
  OpLabel = 248,
  OpBranch = 249,
  OpBranchConditional = 250,
  OpSwitch = 251,
  OpUnreachable = 255,
  OpExecutionModeId = 331,
};

/// The decoration by which a specialization constant states its number.
inline constexpr std::uint32_t kSpecId = 1;

/// What an operation on 32-bit integers or booleans (0 and 1) gives; nothing for other operations, and where SPIR-V
/// leaves the result undefined.
/// @param b, c 0 where the operation has fewer operands
std::optional<std::uint32_t> compute(std::uint32_t op, std::uint32_t a, std::uint32_t b, std::uint32_t c);

}  // namespace etna::vulkan::spirv
