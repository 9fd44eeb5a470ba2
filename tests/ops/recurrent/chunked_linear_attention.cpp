#include <cmath>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/recurrent/internal/states.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

/// Sizes of a call: sequences, heads, chunks, steps of one, elements of keys and of values.
struct Chunks {
  std::int64_t batch, heads, chunks, steps, key, value;
};

/// q, m, u, k and decay, then w where states are read before they are written.
Sample chunks(const char* name, const Chunks& s, bool delta) {
  const double most = 1 / std::sqrt(static_cast<double>(s.key) + 1);
  const Shape keys{s.batch, s.heads, s.chunks, s.steps, s.key};
  Sample sample = Sample("chunked_linear_attention", name)
                      .in(keys, -1, 1)
                      .in({s.batch, s.heads, s.chunks, s.steps, s.steps}, -0.5, 0.5)
                      .in({s.batch, s.heads, s.chunks, s.steps, s.value})
                      .in(keys, -most, most)
                      .in({s.batch, s.heads, s.chunks}, 0.1, 1);
  if (delta) sample.in(keys, -most, most);
  return sample.in_dtypes({f64, f32}).looser(4);
}

Tensor run(const TensorList& in, const Tensor& w, const StateRows& places = {}) {
  return recurrent::chunked_linear_attention({in[0], w, in[1], in[2], in[3], in[4]}, places);
}

Sample without_state(const char* name, const Chunks& s, bool delta) {
  return chunks(name, s, delta)
      .calls([=](const TensorList& in) { return run(in, delta ? in[5] : Tensor()); })
      .covers({"chunked_linear_attention_states", "chunked_linear_attention_backward"});
}

/// @param counts of each sequence; empty: all steps count
Sample with_state(const char* name, const Chunks& s, std::vector<double> positions, std::vector<double> counts) {
  std::vector<double> rows;
  for (std::int64_t i = 0; i < s.batch; ++i) rows.push_back(static_cast<double>(s.batch - i));
  const Shape each{s.batch};
  Sample sample = chunks(name, s, true)
                      .in({s.batch + 1, s.heads, s.key, s.value})
                      .dense()
                      .values(each, rows)
                      .as(i32)
                      .constant()
                      .dense()
                      .values(each, positions)
                      .as(i32)
                      .constant()
                      .dense();
  const bool counted = !counts.empty();
  if (counted) sample.values(each, counts).as(i32).constant();
  return sample
      .calls([=](const TensorList& in) {
        const Tensor state = in[6].clone();
        const Tensor y = run(in, in[5], {state, in[7], in[8], counted ? in[9] : Tensor()});
        return TensorList{y, state};
      })
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_chunked_linear_attention() {
  return {
      without_state("chunks", {2, 2, 3, 4, 4, 3}, true),
      without_state("chunks that do not read", {1, 2, 2, 3, 5, 4}, false),
      without_state("sizes of primes", {1, 2, 3, 61, 67, 19}, true).gradients(Gradients::first).looser(8),
      without_state("wide keys", {1, 1, 2, 13, 251, 5}, true).gradients(Gradients::first).looser(8),
      without_state("keys in fours", {1, 2, 2, 64, 128, 32}, true).gradients(Gradients::first).looser(8),
      without_state("keys wider than kernels'", {1, 1, 2, 2, 260, 3}, true).gradients(Gradients::compared),
      without_state("no chunks", {2, 2, 0, 4, 3, 2}, true),
      without_state("no sequences", {0, 2, 2, 4, 3, 2}, true),
      without_state("keys without elements", {1, 1, 2, 3, 0, 4}, true),
      with_state("states that go on", {3, 2, 2, 7, 6, 18}, {5, 0, -1}, {}),
      with_state("counts", {3, 1, 2, 5, 9, 4}, {5, 3, 2}, {0, 5, 2}),
  };
}

}  // namespace etna::conformance
