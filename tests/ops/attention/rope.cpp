#include <etna/tensor/ops.h>
#include <etna/tensor/ops/attention/attention.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_rope() {
  std::vector<Sample> all;
  auto add = [&](const char* name, Shape shape, std::vector<double> frequencies, bool interleaved,
                 std::optional<Shape> positions, std::vector<double> at = {}) {
    Sample s("rope", name);
    const auto count = static_cast<std::int64_t>(frequencies.size());
    s.in(shape).values({count}, frequencies).as(f32).constant();
    positions ? s.values(*positions, at).as(i32).constant() : s.none();
    s.calls([=](const TensorList& in) { return rope(in[0], in[1], in[2], interleaved); });
    all.push_back(s);
  };
  add("halves", {2, 3, 4}, {1, 0.25}, false, {});
  add("neighbours, from a position on", {2, 1, 3, 4}, {1, 0.25}, true, Shape{}, {5});
  add("part of a row, given positions", {3, 7}, {1, 0.5}, false, Shape{3}, {4, 0, 9});
  add("five dimensions, neighbours", {1, 2, 2, 3, 3}, {0.75}, true, {});
  add("no rows", {2, 0, 4}, {1, 0.25}, false, {});
  return all;
}

}  // namespace etna::conformance
