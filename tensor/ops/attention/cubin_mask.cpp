#include <etna/tensor/ops/attention/internal/cubin_mask.h>

#include <algorithm>
#include <limits>

#include <etna/device/internal/rounding.h>
#include <etna/shaders/cubins.h>
#include <etna/tensor/ops/resample/resample.h>

namespace etna::attention {
namespace {

/// Queries and keys of a block, as in shaders/sm90/attention_mask.cuh.
constexpr std::int64_t kMaskQueries = 64, kMaskKeys = 128;
constexpr std::uint32_t kMaskThreads = 1024, kMaskBytes = 256;

/// One of what a batch or heads share.
Tensor without_repeats(Tensor mask) {
  for (int d = 0; d < 2; ++d) {
    if (mask.strides()[d] == 0) mask = mask.slice(d, 0, 1);
  }
  return mask;
}

/// What is added, in rows of whole 16 bytes: a view if it lies so.
Tensor aligned_rows(const Tensor& mask) {
  const auto vector = static_cast<std::int64_t>(16 / item_size(mask.dtype()));
  const Strides& s = mask.strides();
  bool fits = mask.size(3) % 8 == 0 && s[3] == 1 && gpu::pointer(mask).address % 16 == 0;
  for (int d = 0; d < 3; ++d) fits = fits && s[d] % vector == 0;
  if (fits) return mask;
  const std::int64_t missing = round_up(mask.size(3), std::int64_t{8}) - mask.size(3);
  return pad(mask, {0, missing}, PadMode::constant, -std::numeric_limits<double>::infinity()).contiguous();
}

/// The bits of what hides; 0: bools.
std::uint32_t infinity_of(DType t) { return t == boolean ? 0 : t == f32 ? 0xFF800000 : t == bf16 ? 0xFF80 : 0xFC00; }

bool strides_fit(const Tensor& x) {
  const Strides& s = x.strides();
  return std::all_of(s.begin(), s.end(), [](std::int64_t n) { return n >= 0 && n < std::int64_t{1} << 32; });
}

}  // namespace

void CubinMask::append_to(CubinParameters& p) const {
  for (const Tensor* x : {&spans, &open, &bits, &values}) p.read(gpu::pointer(*x));
  p.u32s(batch > 1 ? query_blocks : 0, batch > 1 ? heads : 0, heads > 1 ? 1 : 0, query_blocks, key_blocks, words);
  if (!values.defined()) return p.u32s(0, 0, 0, 0, 0);
  const Strides& s = values.strides();
  p.u32s(values.size(3), values.dtype() == f32, batch > 1 ? s[0] : 0, heads > 1 ? s[1] : 0, s[2]);
}

std::optional<CubinMask> cubin_mask(const OpCall& call, const Inputs& in, bool across) {
  Tensor given = without_repeats(in.mask);
  if (given.dtype() != boolean && given.dtype() != in.q.dtype()) given = given.to(f32);
  CubinMask mask{.batch = given.size(0),
                 .heads = given.size(1),
                 .query_blocks = 2 * ceil_div(in.queries, 2 * kMaskQueries),
                 .key_blocks = ceil_div(in.keys, kMaskKeys)};
  mask.words = across ? mask.query_blocks * kMaskQueries / 32 : mask.key_blocks * kMaskKeys / 32;
  const std::int64_t blocks = mask.batch * mask.query_blocks, open = blocks * mask.heads * mask.key_blocks;
  if (open >= std::int64_t{1} << 31 || !strides_fit(given)) return {};
  if (given.dtype() != boolean) {
    mask.values = aligned_rows(across ? given.transpose(2, 3) : given);
    if (!strides_fit(mask.values)) return {};
  }
  const Device device = in.q.device();
  mask.spans = empty({blocks, 2}, {i32, device}), mask.open = empty({open}, {u8, device});
  if (given.dtype() == boolean) mask.bits = empty({open, kMaskQueries * kMaskKeys / 32}, {i32, device});

  CubinParameters p;  // hopper::AttentionMaskParameters
  p.read(gpu::pointer(given));
  for (const Tensor* x : {&mask.spans, &mask.open, &mask.bits}) p.write(gpu::pointer(*x));
  for (const std::int64_t stride : given.strides()) p.u32s(stride);
  p.u32s(mask.heads, in.queries, in.keys, mask.query_blocks, mask.key_blocks, across, infinity_of(given.dtype()));
  gpu::enqueue(device, {.kernel = cubins::cubin_attention_mask,
                        .op = call.op.name,
                        .arguments = p,
                        .groups = {gpu::u32(blocks), 1, 1},
                        .threads = kMaskThreads,
                        .shared_bytes = kMaskBytes});
  return mask;
}

}  // namespace etna::attention
