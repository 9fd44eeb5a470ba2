#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/device/internal/cpu/vector_rows.h>
#include <etna/tensor/ops/attention/internal/paged.h>
#include <etna/tensor/ops/rows/internal/rows.h>

namespace etna::attention::paged {
namespace {

constexpr std::int64_t kQ8Block = 32, kQ8Bytes = 34;

/// Converts f16 to f32 in a form that compilers vectorize.
void widen_half(const std::uint16_t* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = x[i], magnitude = bits & 0x7fffu;
    const float small = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t top = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    y[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(small) | top | (bits & 0x8000u) << 16);
  }
}

/// Quantizes a row to Q8_0. NaN and infinities make the scale NaN, so that they stay visible.
template <typename T>
void write_q8(const T* row, std::uint8_t* to, std::int64_t size) {
  for (std::int64_t first = 0; first < size; first += kQ8Block, to += kQ8Bytes) {
    float most = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < kQ8Block; ++i) {
      const auto value = static_cast<float>(row[first + i]);
      finite = finite && std::isfinite(value);
      most = std::max(most, std::abs(value));
    }
    const Half scale(finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN());
    std::memcpy(to, &scale.bits, 2);
    const auto rounded = static_cast<float>(scale);
    const float inverse = finite && rounded > 0 ? 1 / rounded : 0;
    for (std::int64_t i = 0; i < kQ8Block; ++i) {
      const float code = finite ? std::nearbyint(static_cast<float>(row[first + i]) * inverse) : 0.0f;
      to[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::clamp(code, -127.0f, 127.0f)));
    }
  }
}

void read_q8(const std::uint8_t* from, float* row, std::int64_t size) {
  for (std::int64_t first = 0; first < size; first += kQ8Block, from += kQ8Bytes) {
    std::uint16_t bits;
    std::memcpy(&bits, from, 2);
    float scale;
    widen_half(&bits, &scale, 1);
    for (std::int64_t i = 0; i < kQ8Block; ++i)
      row[first + i] = static_cast<float>(static_cast<std::int8_t>(from[2 + i])) * scale;
  }
}

/// A row of the cache as T; in place if it already holds T.
template <typename T>
const T* cached_row(const Tensor& cache, std::int64_t row, std::int64_t size, T* buffer) {
  if constexpr (std::is_same_v<T, float>) {
    if (cache.dtype() == u8) {
      read_q8(cache.host<std::uint8_t>() + row * cache.size(3), buffer, size);
      return buffer;
    }
    if (cache.dtype() == f16) {
      widen_half(&(cache.host<Half>() + row * size)->bits, buffer, size);
      return buffer;
    }
  }
  if (cache.dtype() == u8) {
    cpu::Scratch<float> values(static_cast<std::size_t>(size));
    read_q8(cache.host<std::uint8_t>() + row * cache.size(3), values.data(), size);
    std::copy_n(values.data(), size, buffer);
    return buffer;
  }
  return rows::read(cache, row * size, 1, size, buffer);
}

/// The cache row of a sequence's position, for head 0; -1 if the position has no block.
std::int64_t place(const Tensor& table, std::int64_t b, std::int64_t position, std::int64_t blocks,
                   std::int64_t heads) {
  if (position < 0 || position / kCacheBlock >= table.size(1)) return -1;
  const std::int32_t block = table.host<std::int32_t>()[b * table.size(1) + position / kCacheBlock];
  if (block < 0 || block >= blocks) return -1;
  return static_cast<std::int64_t>(block) * heads * kCacheBlock + position % kCacheBlock;
}

template <typename T>
void turn(T* row, const WriteAttrs& a, const float* frequencies, std::int64_t pairs, std::int64_t position) {
  const std::int64_t distance = a.interleaved ? 1 : pairs, step = a.interleaved ? 2 : 1;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const T angle = static_cast<T>(position) * static_cast<T>(frequencies[i]);
    const T c = std::cos(angle) * static_cast<T>(a.magnitude), s = std::sin(angle) * static_cast<T>(a.magnitude);
    const T u = row[i * step], v = row[i * step + distance];
    row[i * step] = u * c - v * s;
    row[i * step + distance] = v * c + u * s;
  }
}

template <typename T>
void normalize_head(T* row, const T* weight, float eps, std::int64_t size) {
  const double squares = cpu::squares(row, 0, size) / static_cast<double>(size);
  const T scale = static_cast<T>(1 / std::sqrt(squares + static_cast<double>(eps)));
  for (std::int64_t i = 0; i < size; ++i) row[i] = row[i] * scale * weight[i];
}

}  // namespace

void rotate_and_cache_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<WriteAttrs>();
  const Tensor qkv = call.in[kQkv].contiguous(), table = call.in[kWriteTable].contiguous(),
               positions = call.in[kWritePositions].contiguous();
  const Tensor &keys = out[1], &values = out[2];
  const std::int64_t batch = qkv.size(0), steps = qkv.size(1), heads = a.heads + 2 * a.kv_heads, size = a.size;
  if (qkv.numel() == 0) return;
  const Tensor frequencies = call.in[kFrequencies].defined() ? call.in[kFrequencies].contiguous() : Tensor();
  const std::int64_t pairs = frequencies.defined() ? frequencies.size(0) : 0;
  rows::visit_compute(qkv.dtype(), [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), double>, double, float>;
    const auto converted = [&](int i) {
      const Tensor& norm = call.in[static_cast<std::size_t>(i)];
      return norm.defined() ? norm.to(dtype_of<T>()).contiguous() : Tensor();
    };
    const Tensor query_norm = converted(kQueryNorm), key_norm = converted(kKeyNorm);
    const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / 4 / size);
    cpu::parallel_for(batch * steps * heads, grain, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> row(static_cast<std::size_t>(size));
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t head = r % heads, t = r / heads % steps, b = r / heads / steps;
        const std::int64_t position = positions.host<std::int32_t>()[b] + t;
        const bool query = head < a.heads, key = !query && head < a.heads + a.kv_heads;
        const T* in = rows::read(qkv, r * size, 1, size, row.data());
        if (in != row.data()) std::copy_n(in, size, row.data());
        const Tensor& norm = query ? query_norm : key_norm;
        if ((query || key) && norm.defined()) normalize_head(row.data(), norm.template host<T>(), a.eps, size);
        if ((query || key) && pairs > 0) turn(row.data(), a, frequencies.host<float>(), pairs, position);
        if (query) {
          rows::write(out[0], ((b * steps + t) * a.heads + head) * size, 1, size, row.data());
          continue;
        }
        Tensor cache = key ? keys : values;
        const std::int64_t g = (head - a.heads) % a.kv_heads;
        const std::int64_t first = place(table, b, position, cache.size(0), a.kv_heads);
        if (first < 0) continue;
        const std::int64_t at = first + g * kCacheBlock;
        if (cache.dtype() == u8)
          write_q8(row.data(), cache.host<std::uint8_t>() + at * cache.size(3), size);
        else
          rows::write(cache, at * size, 1, size, row.data());
      }
    });
  });
}

void paged_attention_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<AttentionAttrs>();
  const Tensor q = call.in[kQ].contiguous(), table = call.in[kTable].contiguous(),
               positions = call.in[kPositions].contiguous();
  const Tensor &keys = call.in[kKeys], &values = call.in[kValues];
  if (q.numel() == 0) return;
  const std::int64_t steps = q.size(1), heads = q.size(2), size = q.size(3), groups = keys.size(1),
                     shared = heads / groups;
  rows::visit_compute(q.dtype(), [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), double>, double, float>;
    const auto whole = static_cast<std::size_t>(size), lot = static_cast<std::size_t>(shared);
    cpu::parallel_for(q.size(0) * steps * groups, 1, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> row(whole), queries(lot * whole), sums(lot * whole);
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t g = r % groups, t = r / groups % steps, b = r / groups / steps;
        const std::int64_t position = positions.host<std::int32_t>()[b] + t;
        const std::int64_t last = std::min(position + 1, table.size(1) * kCacheBlock);
        const std::int64_t first = a.window > 0 ? std::max<std::int64_t>(0, position + 1 - a.window) : 0;
        const std::int64_t count = std::max<std::int64_t>(0, last - first);
        cpu::Scratch<T> weights(lot * static_cast<std::size_t>(count) + 1);
        const std::int64_t at = ((b * steps + t) * heads + g * shared) * size;
        for (std::int64_t h = 0; h < shared; ++h) {
          T* query = queries.data() + h * size;
          const T* in = rows::read(q, at + h * size, 1, size, query);
          if (in != query) std::copy_n(in, size, query);
          cpu::scale(query, static_cast<T>(a.scale), size);
        }
        constexpr T kNone = -std::numeric_limits<T>::infinity();
        for (std::int64_t j = 0; j < count; ++j) {
          const std::int64_t from = place(table, b, first + j, keys.size(0), groups);
          const T* k = from < 0 ? nullptr : cached_row(keys, from + g * kCacheBlock, size, row.data());
          for (std::int64_t h = 0; h < shared; ++h) {
            T score = k == nullptr ? kNone : static_cast<T>(cpu::dot(queries.data() + h * size, k, size));
            if (a.softcap > 0 && k != nullptr)
              score = static_cast<T>(a.softcap) * std::tanh(score / static_cast<T>(a.softcap));
            weights[static_cast<std::size_t>(h * count + j)] = score;
          }
        }
        std::fill_n(sums.data(), shared * size, T(0));
        bool any = false;
        for (std::int64_t h = 0; h < shared; ++h) {
          T* w = weights.data() + h * count;
          const T most = cpu::largest(w, count);
          if (most == kNone) continue;
          any = true;
          cpu::scale(w, static_cast<T>(1 / cpu::exp_sum(w, most, w, count)), count);
        }
        for (std::int64_t j = 0; any && j < count; ++j) {
          const std::int64_t from = place(table, b, first + j, keys.size(0), groups);
          if (from < 0) continue;
          const T* v = cached_row(values, from + g * kCacheBlock, size, row.data());
          for (std::int64_t h = 0; h < shared; ++h)
            cpu::add_scaled(sums.data() + h * size, v, weights[static_cast<std::size_t>(h * count + j)], size);
        }
        rows::write(out[0], at, 1, shared * size, sums.data());
      }
    });
  });
}

}  // namespace etna::attention::paged
