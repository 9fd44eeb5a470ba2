#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {

std::vector<Sample> samples_in_scan() {
  std::vector<Sample> all;
  auto scan = [&](const char* name, Shape shape, int dim, bool reverse) {
    auto call = [=](const TensorList& in) { return cumsum(in[0], dim, reverse); };
    all.push_back(Sample("cumsum", name).in(shape).and_integers().and_bool().calls(call));
  };
  scan("rows", {5, 7}, 1, false);
  scan("rows, reversed", {5, 7}, 1, true);
  scan("columns", {7, 5}, 0, false);
  scan("middle, reversed", {2, 5, 3}, 1, true);
  scan("long rows", {3, 521}, 1, false);
  scan("tall columns", {131, 3}, 0, true);
  scan("0-d", {}, 0, false);
  scan("nothing", {3, 0}, 1, false);
  auto triangle = [&](const char* name, Shape shape, std::int64_t diagonal) {
    auto lower = [=](const TensorList& in) { return tril(in[0], diagonal); };
    auto upper = [=](const TensorList& in) { return triu(in[0], diagonal); };
    all.push_back(Sample("tril", name).in(shape).and_integers().and_bool().calls(lower));
    all.push_back(Sample("triu", name).in(shape).and_integers().and_bool().calls(upper));
  };
  triangle("square", {5, 5}, 0);
  triangle("wide, above", {2, 3, 7}, 2);
  triangle("tall, below", {7, 3}, -1);
  triangle("far off", {3, 4}, 100);
  triangle("prime sizes", {2, 31, 37}, 1);
  triangle("no rows", {0, 3}, 0);
  return all;
}

}  // namespace etna::conformance
