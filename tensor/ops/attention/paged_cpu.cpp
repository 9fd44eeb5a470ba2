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
    cpu::widen_half(&bits, &scale, 1);
    for (std::int64_t i = 0; i < kQ8Block; ++i)
      row[first + i] = static_cast<float>(static_cast<std::int8_t>(from[2 + i])) * scale;
  }
}

/// Rows of the cache, one behind the other, as T; in place if it already holds T.
template <typename T>
const T* cached_rows(const Tensor& cache, std::int64_t first, std::int64_t count, std::int64_t size, T* buffer) {
  if (cache.dtype() == u8) {
    cpu::Scratch<float> values(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(size));
    const std::int64_t bytes = cache.size(3);
    const std::uint8_t* from = cache.host<std::uint8_t>() + first * bytes;
    for (std::int64_t i = 0; i < count; ++i, from += bytes) {
      if constexpr (std::is_same_v<T, float>) {
        read_q8(from, buffer + i * size, size);
      } else {
        read_q8(from, values.data(), size);
        std::copy_n(values.data(), size, buffer + i * size);
      }
    }
    return buffer;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (cache.dtype() == f16) {
      cpu::widen_half(&(cache.host<Half>() + first * size)->bits, buffer, count * size);
      return buffer;
    }
  }
  return rows::read(cache, first * size, 1, count * size, buffer);
}

/// The blocks of sequences.
struct BlockTable {
  const std::int32_t* blocks;
  std::int64_t width, count;  ///< of a row, and of the cache's blocks

  BlockTable(const Tensor& table, const Tensor& cache)
      : blocks(table.host<std::int32_t>()), width(table.size(1)), count(cache.size(0)) {}
  /// The block of a sequence at an index; -1: there is none.
  std::int64_t block(std::int64_t b, std::int64_t index) const {
    if (index < 0 || index >= width) return -1;
    const std::int64_t block = blocks[b * width + index];
    return block < count ? block : -1;
  }
};

/// Cosines and sines of a position, `pairs` each.
template <typename T>
void find_turn(const WriteAttrs& a, const float* frequencies, std::int64_t pairs, std::int64_t position, T* turn) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const T angle = static_cast<T>(position) * static_cast<T>(frequencies[i]);
    turn[i] = std::cos(angle) * static_cast<T>(a.magnitude);
    turn[pairs + i] = std::sin(angle) * static_cast<T>(a.magnitude);
  }
}

template <typename T>
void turn_row(T* row, const WriteAttrs& a, const T* turn, std::int64_t pairs) {
  const std::int64_t distance = a.interleaved ? 1 : pairs, step = a.interleaved ? 2 : 1;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const T c = turn[i], s = turn[pairs + i], u = row[i * step], v = row[i * step + distance];
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
  const std::int64_t batch = qkv.size(0), steps = qkv.size(1), heads = a.all_heads(), size = a.size;
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
    const BlockTable places(table, out[1]);
    const std::int32_t* starts = positions.host<std::int32_t>();
    const std::int64_t grain = std::max<std::int64_t>(1, rows::kGrain / 4 / (size * heads));
    cpu::parallel_for(batch * steps, grain, [&](std::int64_t begin, std::int64_t end) {
      cpu::Scratch<T> row(static_cast<std::size_t>(size)), turn(static_cast<std::size_t>(2 * pairs) + 1);
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t b = r / steps, position = starts[b] + r % steps;
        const std::int64_t block = position < 0 ? -1 : places.block(b, position / kCacheBlock);
        if (pairs > 0) find_turn(a, frequencies.host<float>(), pairs, position, turn.data());
        for (std::int64_t head = 0; head < heads; ++head) {
          const bool query = head < a.heads, key = !query && head < a.heads + a.kv_heads;
          if (!query && block < 0) break;
          const T* in = rows::read(qkv, (r * heads + head) * size, 1, size, row.data());
          if (in != row.data()) std::copy_n(in, size, row.data());
          const Tensor& norm = query ? query_norm : key_norm;
          if ((query || key) && norm.defined()) normalize_head(row.data(), norm.template host<T>(), a.eps, size);
          if ((query || key) && pairs > 0) turn_row(row.data(), a, turn.data(), pairs);
          if (query) {
            rows::write(out[0], (r * a.heads + head) * size, 1, size, row.data());
            continue;
          }
          Tensor& cache = out[key ? 1 : 2];
          const std::int64_t g = (head - a.heads) % a.kv_heads;
          const std::int64_t at = (block * a.kv_heads + g) * kCacheBlock + position % kCacheBlock;
          if (cache.dtype() == u8)
            write_q8(row.data(), cache.host<std::uint8_t>() + at * cache.size(3), size);
          else
            rows::write(cache, at * size, 1, size, row.data());
        }
      }
    });
  });
}

namespace {

/// Positions begin ... end - 1 within a block.
struct Span {
  std::int64_t begin, end;
  std::int64_t size() const { return std::max<std::int64_t>(0, end - begin); }
};

/// Attention of some rows, which share a head of keys, over one block after another: weights are relative to the
/// largest score so far (Milakov and Gimelshein 2018). A row's numbers do not depend on the other rows.
template <typename T>
class RowsAttention {
 public:
  RowsAttention(const AttentionAttrs& a, std::int64_t most_rows, std::int64_t size)
      : a_(a),
        size_(size),
        queries_(scratch(most_rows * size)),
        sums_(scratch(most_rows * size)),
        scores_(scratch(most_rows * kCacheBlock)),
        block_(scratch(kCacheBlock * size)),
        most_(static_cast<std::size_t>(most_rows)),
        totals_(static_cast<std::size_t>(most_rows)) {}

  T* queries() { return queries_.data(); }
  const T* sums() const { return sums_.data(); }

  /// @param sinks of the rows' heads, repeated for each query; empty: none
  void begin(std::int64_t rows, std::span<const T> sinks) {
    rows_ = rows;
    sinks_ = sinks;
    cpu::scale(queries_.data(), static_cast<T>(a_.scale), rows * size_);
    std::fill_n(sums_.data(), rows * size_, T(0));
    std::fill_n(most_.data(), rows, kNone);
    std::fill_n(totals_.data(), rows, 0.0);
  }

  /// @param values undefined: the keys @param first of the block's rows in the cache
  /// @param seen by each row, within the block
  template <typename Seen>
  void add_block(const Tensor& keys, const Tensor& values, std::int64_t first, const Seen& seen) {
    Span all{kCacheBlock, 0}, common{0, kCacheBlock};
    for (std::int64_t r = 0; r < rows_; ++r) {
      const Span s = seen(r);
      all = {std::min(all.begin, s.begin), std::max(all.end, s.end)};
      common = {std::max(common.begin, s.begin), std::min(common.end, s.end)};
    }
    if (all.size() == 0) return;
    const T* k = cached_rows(keys, first + all.begin, all.size(), size_, block_.data());
    dots(queries_.data(), rows_, k, all.size(), size_, scores_.data() + all.begin);
    for (std::int64_t r = 0; r < rows_; ++r) weigh(r, seen(r));
    if (values.defined()) k = cached_rows(values, first + all.begin, all.size(), size_, block_.data());
    const T* v = k - all.begin * size_;
    // Rows that some do not see may hold NaN.
    if (common.size() == 0) common = {all.end, all.end};
    for (std::int64_t r = 0; r < rows_; ++r) {
      const Span s = seen(r);
      add(r, 1, v, {s.begin, std::min(s.end, common.begin)});
    }
    add(0, rows_, v, common);
    for (std::int64_t r = 0; r < rows_; ++r) add(r, 1, v, {std::max(seen(r).begin, common.end), seen(r).end});
  }

  void end() {
    for (std::int64_t r = 0; r < rows_; ++r) {
      double total = totals_.data()[r];
      if (total == 0) continue;
      if (!sinks_.empty()) {
        const T sink = sinks_[static_cast<std::size_t>(r) % sinks_.size()];
        total += std::exp(static_cast<double>(sink) - static_cast<double>(most_.data()[r]));
      }
      cpu::scale(sums_.data() + r * size_, static_cast<T>(1 / total), size_);
    }
  }

 private:
  static constexpr T kNone = -std::numeric_limits<T>::infinity();

  static std::size_t scratch(std::int64_t count) { return static_cast<std::size_t>(count); }

  static void dots(const T* a, std::int64_t rows, const T* b, std::int64_t count, std::int64_t n, T* products) {
    if constexpr (std::is_same_v<T, float>) {
      cpu::dots(a, rows, b, count, n, products, kCacheBlock);
    } else {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < count; ++j) products[r * kCacheBlock + j] = cpu::dot(a + r * n, b + j * n, n);
    }
  }

  /// Turns a row's scores into weights, and brings what it has so far to the same scale.
  void weigh(std::int64_t r, Span seen) {
    if (seen.size() == 0) return;
    T* scores = scores_.data() + r * kCacheBlock + seen.begin;
    if (a_.softcap > 0) {
      const T cap = static_cast<T>(a_.softcap);
      for (std::int64_t j = 0; j < seen.size(); ++j) scores[j] = cap * std::tanh(scores[j] / cap);
    }
    const T before = most_.data()[r], here = cpu::largest(scores, seen.size());
    const T most = here > before || std::isnan(here) ? here : before;
    if (most == kNone) {
      std::fill_n(scores, seen.size(), T(0));
      return;
    }
    if (before != kNone && before != most) {
      const T factor = std::exp(before - most);
      cpu::scale(sums_.data() + r * size_, factor, size_);
      totals_.data()[r] *= static_cast<double>(factor);
    }
    most_.data()[r] = most;
    totals_.data()[r] += static_cast<double>(cpu::exp_sum(scores, most, scores, seen.size()));
  }

  /// Adds values of positions to rows.
  void add(std::int64_t row, std::int64_t rows, const T* v, Span positions) {
    if (positions.size() == 0) return;
    T* sums = sums_.data() + row * size_;
    const T* weights = scores_.data() + row * kCacheBlock + positions.begin;
    v += positions.begin * size_;
    if constexpr (std::is_same_v<T, float>) {
      cpu::add_weighted(sums, rows, weights, kCacheBlock, v, positions.size(), size_);
    } else {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < positions.size(); ++j)
          cpu::add_scaled(sums + r * size_, v + j * size_, weights[r * kCacheBlock + j], size_);
    }
  }

  const AttentionAttrs a_;
  const std::int64_t size_;
  std::int64_t rows_ = 0;
  std::span<const T> sinks_;
  cpu::Scratch<T> queries_, sums_, scores_, block_, most_;
  cpu::Scratch<double> totals_;
};

/// Rows that read a block of keys together: so many pay for its conversion, and stay in the L2 cache.
constexpr std::int64_t kRowsAtOnce = 64;
/// Heads that share keys are divided among threads which would have nothing to do, but no further than this.
constexpr std::int64_t kFewestHeads = 4;

}  // namespace

void paged_attention_cpu(const OpCall& call, std::span<Tensor> out) {
  const auto a = call.as<AttentionAttrs>();
  const Tensor q = call.in[kQ].contiguous(), table = call.in[kTable].contiguous(),
               positions = call.in[kPositions].contiguous();
  const Tensor &keys = call.in[kKeys], &values = call.in[kValues];
  if (q.numel() == 0) return;
  const std::int64_t steps = q.size(1), heads = q.size(2), size = q.size(3), groups = keys.size(1),
                     shared = heads / groups;
  const std::int64_t at_once = std::min(steps, std::max<std::int64_t>(1, kRowsAtOnce / shared)),
                     parts = (steps + at_once - 1) / at_once, tasks = q.size(0) * parts * groups;
  const std::int64_t most_sets = std::max<std::int64_t>(1, shared / kFewestHeads),
                     wanted = std::clamp<std::int64_t>(cpu::workers() / tasks, 1, most_sets),
                     set = (shared + wanted - 1) / wanted, sets = (shared + set - 1) / set;
  rows::visit_compute(q.dtype(), [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), double>, double, float>;
    const BlockTable places(table, keys);
    const std::int32_t* starts = positions.host<std::int32_t>();
    const Tensor sinks = call.in[kSinks].defined() ? call.in[kSinks].to(dtype_of<T>()).contiguous() : Tensor();
    cpu::parallel_for(tasks * sets, 1, [&](std::int64_t begin, std::int64_t end) {
      RowsAttention<T> attention(a, at_once * set, size);
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t task = r / sets, first_head = r % sets * set, own = std::min(set, shared - first_head);
        const std::int64_t g = task % groups, b = task / groups / parts, t = task / groups % parts * at_once;
        const std::int64_t count = std::min(at_once, steps - t), position = starts[b] + t,
                           head = g * shared + first_head;
        const auto row_at = [&](std::int64_t i) { return ((b * steps + t + i) * heads + head) * size; };
        for (std::int64_t i = 0; i < count; ++i) {
          T* query = attention.queries() + i * own * size;
          const T* in = rows::read(q, row_at(i), 1, own * size, query);
          if (in != query) std::copy_n(in, own * size, query);
        }
        attention.begin(count * own, sinks.defined() ? std::span<const T>(sinks.template host<T>() + head,
                                                                          static_cast<std::size_t>(own))
                                                     : std::span<const T>());
        const std::int64_t last = position + count - 1;
        for (std::int64_t i = a.oldest(position) / kCacheBlock; last >= 0 && i <= last / kCacheBlock; ++i) {
          const std::int64_t block = places.block(b, i);
          if (block < 0) continue;
          attention.add_block(keys, values, (block * groups + g) * kCacheBlock, [&](std::int64_t row) {
            const std::int64_t at = position + row / own, first = i * kCacheBlock;
            const std::int64_t from = std::max<std::int64_t>(0, a.oldest(at) - first);
            return Span{std::min(from, kCacheBlock), std::min(at + 1 - first, kCacheBlock)};
          });
        }
        attention.end();
        for (std::int64_t i = 0; i < count; ++i)
          rows::write(out[0], row_at(i), 1, own * size, attention.sums() + i * own * size);
      }
    });
  });
}

}  // namespace etna::attention::paged
