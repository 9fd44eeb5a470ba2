#include <conformance/samples.h>
#include <etna/tensor/ops.h>

namespace etna::conformance {

std::vector<Sample> samples_in_window() {
  auto columns = [](std::int64_t start, std::int64_t length) {
    return [=](const TensorList& in) {
      return window(
          in[0], [start] { return start; }, length);
    };
  };
  auto of = [](const char* name) {
    return std::move(Sample("window", name).and_integers().and_bool().gradients(Gradients::none));
  };
  return {
      of("the first columns").in({3, 8}).calls(columns(0, 5)),
      of("columns within").in({4, 9}).calls(columns(3, 4)),
      of("the last column").in({5, 7}).calls(columns(6, 1)),
      of("all columns").in({2, 6}).calls(columns(0, 6)),
      of("of a single row").in({1, 11}).calls(columns(2, 7)),
      of("of every second row of a transposed matrix").in({12, 6}).calls([columns](const TensorList& in) {
        return columns(4, 5)({in[0].t().slice(0, 0, 6, 2)});
      }),
      of("no rows").in({0, 7}).calls(columns(2, 3)),
      of("prime").in({13, 131}).calls(columns(17, 67)),
  };
}

}  // namespace etna::conformance
