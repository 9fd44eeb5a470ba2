#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/shaders/shaders.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/random/random.h>

// Removes the tokens that a mask of bits does not allow.
namespace etna {
namespace {

enum MaskTokensIn { kMaskedLogits, kTokenMasks, kMaskRows };

std::vector<OutputSpec> mask_tokens_infer(const OpCall& call) {
  const Tensor &logits = call.in[kMaskedLogits], &masks = call.in[kTokenMasks], &rows = call.in[kMaskRows];
  if (!is_floating(logits.dtype()))
    throw DtypeError(fmt::format("mask_tokens: logits are {}; wanted a floating dtype", name(logits.dtype())));
  if (masks.dtype() != i32 || rows.dtype() != i32) {
    throw DtypeError(
        fmt::format("mask_tokens: masks are {} and rows {}; wanted i32", name(masks.dtype()), name(rows.dtype())));
  }
  if (logits.dim() != 2)
    throw ShapeError(fmt::format("mask_tokens: logits are {}; wanted [B, V]", str(logits.shape())));
  const std::int64_t words = (logits.size(1) + 31) / 32;
  if (masks.dim() != 2 || masks.size(1) != words) {
    throw ShapeError(fmt::format("mask_tokens: masks are {}; wanted [N, {}], a bit for each of {} tokens",
                                 str(masks.shape()), words, logits.size(1)));
  }
  if (rows.shape() != Shape{logits.size(0)}) {
    throw ShapeError(fmt::format("mask_tokens: rows are {}; wanted [{}], one for each row of logits", str(rows.shape()),
                                 logits.size(0)));
  }
  return {{logits.shape(), logits.dtype()}};
}

void mask_tokens_cpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor logits = call.in[kMaskedLogits].contiguous(), masks = call.in[kTokenMasks].contiguous(),
               rows = call.in[kMaskRows].contiguous();
  const std::int64_t size = logits.size(1), words = masks.size(1);
  const auto run = [&](auto none) {
    using T = decltype(none);
    const T* from = static_cast<const T*>(logits.raw_data());
    T* to = static_cast<T*>(out[0].raw_host());
    cpu::parallel_for(logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int32_t row = rows.host<std::int32_t>()[b];
        std::copy_n(from + b * size, size, to + b * size);
        if (row < 0) continue;
        if (row >= masks.size(0))
          throw IndexError(fmt::format("mask_tokens: row {} at position {} is outside [0, {})", row, b, masks.size(0)));
        const std::int32_t* bits = masks.host<std::int32_t>() + row * words;
        for (std::int64_t i = 0; i < size; ++i)
          if ((static_cast<std::uint32_t>(bits[i / 32]) >> (i % 32) & 1u) == 0) to[b * size + i] = none;
      }
    });
  };
  const float none = -std::numeric_limits<float>::infinity();
  if (logits.dtype() == f64)
    run(static_cast<double>(none));
  else if (logits.dtype() == f32)
    run(none);
  else if (logits.dtype() == f16)
    run(Half(none));
  else
    run(BFloat16(none));
}

bool mask_tokens_gpu(const OpCall& call, std::span<Tensor> out) {
  const Tensor logits = call.in[kMaskedLogits].contiguous();
  if (logits.dtype() == f64) return false;
  const std::int64_t n = logits.numel();
  if (n == 0) return true;
  gpu::Kernel(shaders::mask_tokens, call)
      .spec(logits.dtype())
      .read(logits)
      .read(call.in[kTokenMasks].contiguous())
      .read(call.in[kMaskRows].contiguous())
      .write(out[0])
      .index_errors()
      .u32(n, logits.size(1), call.in[kTokenMasks].size(0))
      .dispatch(gpu::grid(n, 1024));
  return true;
}

TensorList mask_tokens_reference(const OpCall& call) {
  const Tensor &logits = call.in[kMaskedLogits], &masks = call.in[kTokenMasks], &rows = call.in[kMaskRows];
  if (masks.size(0) == 0 || logits.numel() == 0) return {logits.clone()};
  const Tensor words =
      repeat_interleave(index_select(masks, 0, clamp(rows, 0, std::nullopt)), 32, 1).slice(1, 0, logits.size(1));
  const Tensor shift = arange(0, logits.size(1), 1, {i32, logits.device()}) % 32;
  const Tensor allowed = ((words >> shift) & 1) != 0;
  return {where(logical_or(allowed, (rows < 0).unsqueeze(1)), logits, -std::numeric_limits<double>::infinity())};
}

const OpDef kMaskTokens = {.name = "mask_tokens",
                           .infer = mask_tokens_infer,
                           .cpu = mask_tokens_cpu,
                           .gpu = mask_tokens_gpu,
                           .reference = mask_tokens_reference};

}  // namespace

Tensor mask_tokens(const Tensor& logits, const Tensor& masks, const Tensor& rows) {
  return apply1(kMaskTokens, {logits, masks, rows});
}

std::span<const OpDef* const> ops_in_mask_tokens() {
  static const OpDef* const list[] = {&kMaskTokens};
  return list;
}

}  // namespace etna
