#include <algorithm>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

struct Case {
  const char* name;
  Shape q;
  std::int64_t blocks, groups;
  std::vector<double> table;
  std::vector<double> positions;
  PagedAttentionSettings settings = {};
  bool sinks = false;
  bool keys_only = false;  ///< their rows are values, too
};

Sample attention(const Case& c) {
  const auto batch = static_cast<std::int64_t>(c.positions.size());
  const Shape cache{c.blocks, c.groups, kCacheBlock, c.q[3]};
  const PagedAttentionSettings settings = c.settings;
  const std::int64_t width = batch == 0 ? 1 : static_cast<std::int64_t>(c.table.size()) / batch;
  return Sample("paged_attention", c.name)
      .in(c.q)
      .in(cache)
      .dense()
      .in(cache)
      .dense()
      .values({batch, width}, c.table)
      .as(i32)
      .constant()
      .values({batch}, c.positions)
      .as(i32)
      .constant()
      .in({c.sinks ? c.q[2] : 0}, -1, 2)
      .calls([settings, sinks = c.sinks, keys_only = c.keys_only](const TensorList& in) {
        PagedAttentionSettings own = settings;
        if (sinks) own.sinks = in[5];
        return paged_attention(in[0], {in[1], keys_only ? Tensor() : in[2]}, {in[3], in[4]}, own);
      })
      .gradients(Gradients::none);
}

struct Write {
  const char* name;
  Shape qkv;
  RotarySettings settings;
  std::vector<double> table;
  std::vector<double> positions;
  std::int64_t pairs = 0;
  bool normed = false;
  bool keys_only = false;
};

/// The inputs of a write: qkv, keys, values, table, positions, norm, frequencies.
Sample with_new_rows(const char* op, const Write& w) {
  const auto batch = static_cast<std::int64_t>(w.positions.size());
  const std::int64_t size = w.qkv[2] / (w.settings.heads + (w.keys_only ? 1 : 2) * w.settings.kv_heads);
  const Shape cache{std::max<std::int64_t>(3, std::ssize(w.table)), w.settings.kv_heads, kCacheBlock, size};
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < w.pairs; ++i) frequencies.push_back(1.0 / (1.0 + static_cast<double>(i)));
  return Sample(op, w.name)
      .in(w.qkv)
      .in(cache)
      .dense()
      .in(cache)
      .dense()
      .values({batch, batch == 0 ? 1 : static_cast<std::int64_t>(w.table.size()) / batch}, w.table)
      .as(i32)
      .constant()
      .dense()  // expanded, it would have a block twice, which is written while it is read
      .values({batch}, w.positions)
      .as(i32)
      .constant()
      .in({size}, 0.5, 2)
      .values({w.pairs}, frequencies)
      .gradients(Gradients::none);
}

RotarySettings settings_of(const Write& w, const TensorList& in) {
  RotarySettings settings = w.settings;
  if (w.pairs > 0) settings.frequencies = in[6].to(f32);
  if (w.normed) settings.query_norm = settings.key_norm = in[5];
  return settings;
}

Sample write(const Write& w) {
  return with_new_rows("rotate_and_cache", w).calls([w](const TensorList& in) {
    PagedCache into{in[1], w.keys_only ? Tensor() : in[2]};
    const Tensor q = rotate_and_cache_(in[0], into, {in[3], in[4]}, settings_of(w, in));
    return w.keys_only ? TensorList{q, into.keys} : TensorList{q, into.keys, into.values};
  });
}

Sample step(const Write& w, const PagedAttentionSettings& attention = {}, bool sinks = false) {
  return with_new_rows("rotate_and_attend", w)
      .in({sinks ? w.settings.heads : 0}, -1, 2)
      .calls([w, attention, sinks](const TensorList& in) {
        PagedCache into{in[1], in[2]};
        PagedAttentionSettings own = attention;
        if (sinks) own.sinks = in[7];
        const Tensor y = rotate_and_attend_(in[0], into, {in[3], in[4]}, settings_of(w, in), own);
        return TensorList{y, into.keys, into.values};
      });
}

Sample paged_attention_rows(const char* name, Shape cache, Shape table, std::vector<double> blocks, std::int64_t length,
                            DType dtype = f32) {
  return Sample("cached_rows", name)
      .in(cache)
      .values(table, std::move(blocks))
      .as(i32)
      .constant()
      .calls([=](const TensorList& in) { return cached_rows(in[0], in[1], length, dtype); })
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_paged_attention() {
  return {
      attention({"one query", {1, 1, 2, 8}, 2, 2, {1, 0}, {70}}),
      attention({"heads that share keys", {2, 1, 6, 12}, 4, 2, {0, 1, 3, 2}, {5, 100}}),
      attention({"several queries", {2, 3, 4, 16}, 3, 4, {2, 0, 1, -1}, {62, 0}}),
      attention({"four chunks", {1, 2, 2, 8}, 8, 1, {7, 6, 5, 4, 3, 2, 1, 0}, {440}}),
      attention({"a window", {1, 2, 2, 8}, 8, 1, {7, 6, 5, 4, 3, 2, 1, 0}, {300}, {.window = 77}}),
      attention({"softcap", {1, 2, 3, 4}, 1, 3, {0}, {20}, {.scale = 0.7, .softcap = 2}}),
      attention({"chunks", {1, 5, 2, 8}, 4, 1, {3, 2, 1, 0}, {150}, {.chunk = 51}}),
      attention({"chunks of a prompt", {2, 40, 2, 4}, 4, 1, {3, 2, 1, 0}, {3, 75}, {.chunk = 16}}),
      attention({"sinks", {2, 3, 6, 12}, 4, 2, {0, 1, 3, 2}, {5, 100}, {}, true}),
      attention({"sinks of a prompt", {1, 33, 4, 4}, 2, 2, {1, 0}, {40}, {.window = 20}, true}),
      attention({"sinks of nothing", {2, 1, 2, 4}, 1, 1, {-1, 0}, {3, -1}, {}, true}),
      attention({"wide heads", {1, 2, 4, 260}, 2, 2, {1, 0}, {70}}),
      attention({"wide heads of a prompt", {1, 17, 2, 264}, 3, 1, {2, 0, 1}, {100}, {.softcap = 3, .window = 90}}),
      attention({"many heads that share keys", {2, 2, 20, 12}, 4, 1, {0, 1, 3, -1}, {5, 90}, {}, true}),
      attention({"the widest heads", {1, 1, 1, 1024}, 1, 1, {0}, {9}}),
      attention({"rows that are values", {2, 2, 3, 8}, 3, 1, {2, 0, 1, -1}, {62, 0}, {}, false, true}),
      attention({"rows of latent attention", {1, 2, 20, 40}, 3, 1, {2, 0, 1}, {150}, {.chunk = 70}, true, true}),
      attention({"such rows and a prompt", {1, 18, 3, 8}, 2, 1, {1, 0}, {50}, {}, false, true}),
      attention({"nothing to see", {2, 1, 2, 4}, 1, 1, {-1, 0}, {3, -1}}),
      attention({"no sequences", {0, 1, 2, 4}, 1, 1, {}, {}}),
      paged_attention_rows("two sequences", {4, 2, kCacheBlock, 8}, {2, 2}, {3, 0, 1, 2}, 100),
      paged_attention_rows("without a block", {3, 1, kCacheBlock, 4}, {1, 4}, {-1, 2, 3, 0}, 256),
      paged_attention_rows("an odd size", {2, 3, kCacheBlock, 7}, {1, 2}, {1, 0}, 67),
      paged_attention_rows("an even size", {2, 1, kCacheBlock, 6}, {1, 2}, {1, 0}, 65),
      paged_attention_rows("in bf16", {2, 1, kCacheBlock, 8}, {1, 1}, {1}, 5, bf16),
      paged_attention_rows("no positions", {2, 3, kCacheBlock, 8}, {1, 2}, {1, 0}, 0),
      paged_attention_rows("no sequences", {2, 3, kCacheBlock, 8}, {0, 2}, {}, 3),
      write({"halves", {2, 3, 32}, {.heads = 2, .kv_heads = 1}, {0, 1, 2, -1}, {62, 5}, 4}),
      write({"neighbours", {1, 2, 64}, {.heads = 4, .kv_heads = 2, .interleaved = true}, {2}, {9}, 4}),
      write({"a part, larger", {1, 2, 40}, {.heads = 2, .kv_heads = 1, .magnitude = 1.3}, {2}, {3}, 3}),
      write({"normed", {1, 5, 48}, {.heads = 1, .kv_heads = 1}, {1}, {0}, 8, true}),
      write({"rows that are values", {2, 3, 24}, {.heads = 2, .kv_heads = 1}, {0, 1, 2, -1}, {62, 5}, 2, true, true}),
      write({"no rotation", {1, 5, 21}, {.heads = 1, .kv_heads = 1}, {1}, {4}, 0}),
      write({"without a block", {2, 1, 12}, {.heads = 1, .kv_heads = 1}, {-1, 0}, {4, 70}, 2}),
      write({"no rows", {0, 1, 12}, {.heads = 1, .kv_heads = 1}, {}, {}, 2}),
      step({"halves", {2, 1, 32}, {.heads = 2, .kv_heads = 1}, {0, 1, 2, -1}, {65, 5}, 4}),
      step({"neighbours that share keys", {1, 1, 160}, {.heads = 6, .kv_heads = 2, .interleaved = true}, {2}, {9}, 8}),
      step({"a part, larger", {1, 1, 64}, {.heads = 2, .kv_heads = 1, .magnitude = 1.3}, {2}, {3}, 3}),
      step({"normed", {1, 1, 144}, {.heads = 1, .kv_heads = 1}, {1}, {20}, 8, true}),
      step({"no rotation", {1, 1, 24}, {.heads = 1, .kv_heads = 1}, {1}, {4}, 0}),
      step({"two tiles", {1, 1, 32}, {.heads = 2, .kv_heads = 1}, {3, 2, 1, 0}, {200}, 4}),
      step({"parts", {1, 1, 32}, {.heads = 2, .kv_heads = 1}, {8, 7, 6, 5, 4, 3, 2, 1, 0}, {530}, 4}, {.scale = 0.1}),
      step({"a window and a cap", {1, 1, 32}, {.heads = 2, .kv_heads = 1}, {3, 2, 1, 0}, {200}, 4},
           {.scale = 0.7, .softcap = 2, .window = 70}),
      step({"sinks", {2, 1, 32}, {.heads = 2, .kv_heads = 1}, {0, 1, 2, -1}, {65, 5}, 4}, {}, true),
      step({"sinks and parts", {1, 1, 48}, {.heads = 4, .kv_heads = 1}, {8, 7, 6, 5, 4, 3, 2, 1, 0}, {530}, 4},
           {.chunk = 90}, true),
      step({"without a block", {3, 1, 12}, {.heads = 1, .kv_heads = 1}, {-1, 0, 1}, {4, 70, -1}, 2}),
      step({"no sequences", {0, 1, 12}, {.heads = 1, .kv_heads = 1}, {}, {}, 2}),
  };
}

}  // namespace etna::conformance
