#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_settings() {
  std::vector<Sample> all;
  auto attention = [&](const char* name, AttentionSettings settings, Shape q, Shape k, Shape v) {
    auto call = [=](const TensorList& in) { return dot_product_attention(in[0], in[1], in[2], settings); };
    all.push_back(Sample("dot_product_attention", name).composed().in(q).in(k).in(v).calls(call).looser_halves(2));
  };
  attention("wider values, keys of a cache", {.causal_from_end = true}, {1, 2, 2, 2}, {1, 1, 4, 2}, {1, 1, 4, 3});
  attention("softcap, causal", {.causal = true, .softcap = 2}, {1, 2, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2});
  attention("chunks", {.causal = true, .chunk = 2}, {2, 2, 5, 2}, {2, 1, 5, 2}, {2, 1, 5, 2});
  attention("no queries", {.softcap = 2}, {1, 1, 0, 2}, {1, 1, 3, 2}, {1, 1, 3, 2});
  auto rotary = [](const TensorList& in) { return apply_rotary(in[0], in[1], in[2], true); };
  all.push_back(
      Sample("apply_rotary", "neighbours, part of a row").composed().in({2, 3, 5}).in({3, 2}).in({3, 2}).calls(rotary));
  all.push_back(Sample("apply_rotary", "no rows").composed().in({2, 0, 4}).in({0, 2}).in({0, 2}).calls(rotary));
  auto silu = [](const TensorList& in) { return swiglu(in[0], in[1]); };
  auto gelu = [](const TensorList& in) { return geglu(in[0], in[1]); };
  all.push_back(Sample("swiglu", "rows").composed().in({3, 5}).in({3, 5}).calls(silu));
  all.push_back(Sample("swiglu", "nothing").composed().in({0, 5}).in({0, 5}).calls(silu));
  all.push_back(Sample("geglu", "rows").composed().in({3, 5}).in({3, 5}).calls(gelu));
  all.push_back(Sample("geglu", "nothing").composed().in({0, 5}).in({0, 5}).calls(gelu));
  return all;
}

}  // namespace etna::conformance
