#include <fmt/format.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <etna/tensor/ops/sorting/sorting.h>

#include "measure.h"

namespace bench {

using namespace etna;

void sorting(const Setting& setting, const Print& print) {
  if (setting.dtype != f32) return;
  manual_seed(1);
  const Device device = setting.device;
  const std::int64_t n = device.is_cpu() ? 1 << 20 : 1 << 24, rows = device.is_cpu() ? 256 : 4096;
  const Tensor x = randn({n}).to(device), r = randn({rows, 4096}).to(device);
  const auto row = [&](const std::string& name, const std::function<TensorList()>& call) {
    print(timed(setting, "sort", name, call));
  };
  row(fmt::format("sort {}", n), [&] { return TensorList{sort(x).values}; });
  row(fmt::format("sort rows ({}, 4096)", rows), [&] { return TensorList{sort(r, 1).values}; });
  row(fmt::format("topk 32 of rows ({}, 4096)", rows), [&] { return TensorList{topk(r, 32, 1).values}; });
  row(fmt::format("topk 50 of {}", n), [&] { return TensorList{topk(x, 50).values}; });
  const Tensor index = randint(0, 50257, {16384}).to(device), weight = randn({50257, 768}).to(device).requires_grad_();
  print(timed(setting, "sort", "embedding 50257x768 of 16384", [&] { return embedding(weight, index); }, {weight}));
  const Tensor zero = zeros({n / 16}, device), to = randint(0, n / 16, {n}).to(device);
  row(fmt::format("scatter_add {} into {}", n, n / 16), [&] { return TensorList{scatter_add(zero, 0, to, x)}; });
  row(fmt::format("cumsum {}", n), [&] { return TensorList{cumsum(x, 0)}; });
  if (setting.captured) return;  // its size is read on the host
  const Tensor mask = x > 0;
  row(fmt::format("masked_select {}", n), [&] { return TensorList{masked_select(x, mask)}; });
}

}  // namespace bench
