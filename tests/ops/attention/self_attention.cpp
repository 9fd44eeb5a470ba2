#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_self_attention() {
  auto sample = [](const char* name, Shape qkv, std::int64_t heads, std::int64_t kv_heads, bool causal) {
    return Sample("self_attention", name)
        .in(qkv)
        .calls([=](const TensorList& in) { return self_attention(in[0], heads, kv_heads, causal); })
        .covers({"self_attention_backward"});
  };
  auto limited = [](const char* name, Shape qkv, Shape lengths, std::int64_t heads, AttentionSettings settings) {
    return Sample("self_attention", name)
        .in(qkv)
        .index(lengths, 0, static_cast<double>(qkv[qkv.rank() - 2]) / 2)
        .calls([=](const TensorList& in) {
          AttentionSettings s = settings;
          s.documents = document_bounds(in[1], qkv[qkv.rank() - 2]);
          return self_attention(in[0], heads, 1, s);
        })
        .covers({"self_attention_backward"});
  };
  return {
      limited("documents", {2, 7, 12}, {2, 3}, 2, {}),
      limited("documents, window, softcap", {7, 12}, {3}, 2, {.causal = true, .softcap = 2, .window = 3}),
      sample("one head", {5, 9}, 1, 0, false),
      sample("heads", {2, 5, 24}, 2, 0, false),
      sample("causal", {2, 5, 18}, 2, 2, true),
      sample("grouped heads", {2, 3, 16}, 4, 2, false),
      sample("five dimensions", {2, 1, 2, 3, 12}, 2, 1, true),
      sample("no rows", {2, 0, 12}, 2, 0, false),
      sample("empty heads", {2, 3, 0}, 2, 0, false),
      sample("prime sizes", {2, 71, 39}, 1, 0, false).looser(4),
      sample("prime sizes, causal", {1, 131, 201}, 1, 0, true).looser(4),
  };
}

}  // namespace etna::conformance
