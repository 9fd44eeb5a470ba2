#include <algorithm>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops/kernel.h>
#include <etna/tensor/ops/kv_cache/kv_cache.h>

namespace etna::kv_cache {
namespace {

/// Positions of a sequence that one workgroup attends to alone, and those of each of several.
constexpr std::int64_t kMostAlone = 512, kPart = 128;
constexpr std::int64_t kMostShared = 16, kMostSize = 256, kMostRow = 512;

/// Elements that one load takes.
std::uint32_t load_width(const Tensor& cache, std::int64_t size) {
  if (cache.dtype() == u8) return 1;
  const std::uint64_t bytes = cache.address();
  const auto item = static_cast<std::uint64_t>(item_size(cache.dtype()));
  if (size % 4 == 0 && bytes % (4 * item) == 0) return 4;
  return size % 2 == 0 && bytes % (2 * item) == 0 ? 2 : 1;
}

}  // namespace

bool write_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<WriteAttrs>();
  const Tensor &given = call.in[kQkv], &norm = call.in[kQueryNorm].defined() ? call.in[kQueryNorm] : call.in[kKeyNorm];
  if (given.dtype() == f64 || out[1].dtype() == f64 || a.size > kMostRow) return false;
  if (given.numel() == 0) return true;
  const Tensor qkv = given.contiguous(), table = call.in[kWriteTable].contiguous(),
               positions = call.in[kWritePositions].contiguous();
  const auto weights = [&](int i) {
    const Tensor& weight = call.in[static_cast<std::size_t>(i)];
    return weight.defined() ? weight.to(norm.dtype()).contiguous() : Tensor();
  };
  const Tensor frequencies = call.in[kFrequencies].defined() ? call.in[kFrequencies].contiguous() : Tensor();
  gpu::Kernel(shaders::rotate_and_cache, call)
      .spec(qkv.dtype(), out[1].dtype(), a.interleaved, norm.defined() ? gpu::u32(norm.dtype()) + 1 : 0u)
      .read(qkv)
      .read(frequencies)
      .read(table)
      .read(positions)
      .read(weights(kQueryNorm))
      .read(weights(kKeyNorm))
      .write(out[0])
      .read_write(out[1])
      .read_write(out[2])
      .u32(qkv.size(1), a.heads, a.kv_heads, a.size, frequencies.defined() ? frequencies.size(0) : 0)
      .u32(table.size(1), out[1].size(0))
      .f32(a.eps)
      .f32(a.magnitude)
      .dispatch(gpu::grid(qkv.size(0) * qkv.size(1) * (a.heads + 2 * a.kv_heads)));
  return true;
}

bool attention_gpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<AttentionAttrs>();
  const Tensor &given = call.in[kQ], &keys = call.in[kKeys], &values = call.in[kValues];
  const std::int64_t size = given.size(3), groups = keys.size(1), shared = given.size(2) / groups;
  const std::int64_t rows = given.size(0) * given.size(1);
  if (given.dtype() == f64 || keys.dtype() == f64 || size % 4 != 0 || size > kMostSize || shared > kMostShared ||
      groups > 65535 || rows > 65535 || shared * size > 4096)
    return false;
  if (given.numel() == 0) return true;
  const Tensor q = given.contiguous(), table = call.in[kTable].contiguous(),
               positions = call.in[kPositions].contiguous();
  const std::int64_t width = table.size(1), span = width * kCacheBlock <= kMostAlone ? kMostAlone : kPart,
                     chunks = std::max<std::int64_t>(1, (width * kCacheBlock + span - 1) / span);
  const Tensor parts = chunks == 1 ? Tensor() : empty({rows * groups * shared, chunks, size + 2}, {f32, q.device()});
  gpu::Kernel(shaders::paged_attention, call)
      .spec(q.dtype(), keys.dtype(), size, shared)
      .spec(load_width(q, size), std::min(load_width(keys, size), load_width(values, size)))
      .spec(chunks == 1)
      .read(q)
      .read(keys)
      .read(values)
      .read(table)
      .read(positions)
      .write(chunks == 1 ? out[0] : Tensor())
      .write(parts)
      .u32(q.size(1), groups, width, keys.size(0), chunks, a.window, span)
      .f32(static_cast<float>(a.scale))
      .f32(static_cast<float>(a.softcap))
      .dispatch({gpu::u32(chunks), gpu::u32(groups), gpu::u32(rows)});
  if (chunks == 1) return true;
  gpu::Kernel(shaders::paged_attention_merge, call)
      .spec(q.dtype())
      .read(parts)
      .read(positions)
      .write(out[0])
      .u32(q.size(1), groups, shared, chunks, span, size, width * kCacheBlock, a.window)
      .dispatch(gpu::u32(rows * groups * shared));
  return true;
}

}  // namespace etna::kv_cache
