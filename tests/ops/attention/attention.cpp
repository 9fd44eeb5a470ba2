#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_attention() {
  auto attend = [](bool causal) {
    return [causal](const TensorList& in) {
      return scaled_dot_product_attention(in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor(), causal);
    };
  };
  auto sample = [&](const char* name, Shape q, Shape kv, bool causal = false) {
    Sample made("scaled_dot_product_attention", name);
    made.in(q);
    for (int i = 0; i < 2; ++i) {
      made.in(kv);
      // An expanded view would repeat keys or values here: the gradients would cancel and leave only rounding errors.
      if (kv[0] == 1) made.dense();
    }
    return made.calls(attend(causal)).covers({"attention_backward"});
  };
  auto masked = [&](const char* name) {
    return Sample("scaled_dot_product_attention", name).in({2, 2, 3, 4}).in({2, 2, 5, 4}).in({2, 2, 5, 4});
  };
  auto valued = [&](const char* name, std::int64_t size) {
    return Sample("scaled_dot_product_attention", name)
        .in({2, 4, 3, 4})
        .in({2, 2, 5, 4})
        .in({2, 2, 5, size})
        .calls(attend(true))
        .covers({"attention_backward"});
  };
  // With documents of the lengths that follow.
  auto limited = [](const char* name, AttentionSettings settings, Shape q, Shape kv, Shape lengths = {}) {
    Sample made("scaled_dot_product_attention", name);
    for (const Shape& shape : {q, kv, kv}) made.in(shape).dense();
    if (!lengths.empty()) made.index(lengths, 0, static_cast<double>(q[q.rank() - 2]) / 2, i32);
    return made.covers({"attention_backward"}).calls([=](const TensorList& in) {
      AttentionSettings s = settings;
      if (in.size() > 3) s.documents = document_bounds(in[3], q[q.rank() - 2]);
      return dot_product_attention(in[0], in[1], in[2], s);
    });
  };
  return {
      limited("window", {.causal = true, .window = 3}, {2, 2, 7, 3}, {2, 2, 7, 3}),
      limited("window of one, more queries", {.causal = true, .window = 1}, {1, 5, 3}, {1, 3, 3}),
      limited("softcap", {.softcap = 2}, {2, 2, 3, 4}, {2, 2, 5, 4}),
      limited("documents", {}, {2, 2, 7, 3}, {2, 2, 7, 3}, {2, 3}),
      limited("documents, causal", {.causal = true}, {2, 4, 7, 3}, {2, 2, 7, 3}, {2, 3}),
      limited("prime sizes, documents, window, softcap", {.causal = true, .softcap = 3, .window = 37}, {1, 131, 67},
              {1, 131, 67}, {3})
          .looser(4),
      limited("no rows, documents", {.causal = true, .softcap = 2, .window = 2}, {1, 1, 0, 3}, {1, 1, 0, 3}, {1, 2}),
      sample("one head", {1, 3, 4}, {1, 5, 4}),
      sample("batch of heads", {2, 2, 3, 4}, {2, 2, 5, 4}),
      sample("causal", {2, 2, 5, 3}, {2, 2, 5, 3}, true),
      sample("causal, more queries", {1, 5, 3}, {1, 2, 3}, true),
      sample("causal, more keys", {1, 2, 3}, {1, 5, 3}, true),
      sample("grouped heads", {2, 4, 3, 2}, {2, 2, 5, 2}),
      sample("five dimensions", {2, 1, 2, 3, 4}, {2, 1, 2, 3, 4}),
      valued("values of smaller heads", 3),
      valued("values of larger heads", 6),
      sample("no queries", {2, 0, 4}, {2, 3, 4}),
      sample("no keys", {2, 3, 4}, {2, 0, 4}),
      sample("prime sizes", {2, 67, 13}, {2, 71, 13}).looser(4),
      sample("prime sizes, causal", {1, 131, 67}, {1, 131, 67}, true).looser(4),
      masked("bool mask").mask({3, 5}).calls(attend(false)).covers({"attention_backward"}),
      masked("floating mask").in({2, 1, 3, 5}).calls(attend(false)).covers({"attention_backward"}),
  };
}

}  // namespace etna::conformance
