#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/sorting/sorting.h>
#include <torch/figures.h>

namespace etna {
namespace {

using SortingCall = std::function<ValuesIndices(const Tensor&)>;

std::map<std::string, SortingCall> calls_by_name() {
  auto alone = [](auto call) { return [=](const Tensor& x) { return ValuesIndices{call(x), Tensor()}; }; };
  auto list = [](const Tensor& x, std::vector<double> q) { return from_vector(q).to(x.dtype()).to(x.device()); };
  std::map<std::string, SortingCall> calls = {
      {"cummax", [](const Tensor& x) { return cummax(x, 1); }},
      {"cummin", [](const Tensor& x) { return cummin(x, 0); }},
      {"median", alone([](const Tensor& x) { return median(x); })},
      {"median 1", alone([](const Tensor& x) { return median(x, 1).values; })},
      {"nanmedian", alone([](const Tensor& x) { return nanmedian(x); })},
      {"nanmedian 1", alone([](const Tensor& x) { return nanmedian(x, 1, true).values; })},
      {"cumprod", alone([](const Tensor& x) { return cumprod(x, 1); })},
      {"cumprod 0", alone([](const Tensor& x) { return cumprod(x, 0); })},
      {"logcumsumexp", alone([](const Tensor& x) { return logcumsumexp(x, x.dim() == 3 ? 1 : 0); })},
      {"msort", alone([](const Tensor& x) { return msort(x); })},
      {"kthvalue", [](const Tensor& x) { return kthvalue(x, 3, -1); }},
      {"kthvalue keep", [](const Tensor& x) { return kthvalue(x, 2, 0, true); }},
      {"max", [](const Tensor& x) { return max(x, 1); }},
      {"min", [](const Tensor& x) { return x.min(1); }},
      {"mode", alone([](const Tensor& x) { return mode(x, 1).values; })},
      {"quantile list", alone([=](const Tensor& x) {
         return quantile(x, list(x, {0, 0.25, 1}), 2);
       })},
      {"quantile list keep", alone([=](const Tensor& x) {
         return quantile(x, list(x, {0.1, 0.5}), 0, true);
       })},
      {"quantile all", alone([](const Tensor& x) { return quantile(x, 0.7); })},
      {"unique", alone([](const Tensor& x) { return unique(x).values; })},
      {"histc", alone([](const Tensor& x) { return histc(x, 7, -1, 1); })},
      {"histc own", alone([](const Tensor& x) { return histc(x, 5); })},
  };
  for (int flag : {0, 1}) {
    const std::string end = " " + std::to_string(flag);
    calls["topk" + end] = [=](const Tensor& x) { return topk(x, 2, 1, flag != 0); };
    calls["topk_last" + end] = [=](const Tensor& x) { return topk(x, 6, -1, flag != 0); };
    for (int dim : {0, 1}) {
      calls["sort " + std::to_string(dim) + end] = [=](const Tensor& x) { return sort(x, dim, flag != 0); };
    }
  }
  for (const char* kind : {"linear", "lower", "higher", "midpoint", "nearest"}) {
    calls[std::string("quantile ") + kind] = alone([=](const Tensor& x) { return quantile(x, 0.3, 1, false, kind); });
    calls[std::string("nanquantile ") + kind] =
        alone([=](const Tensor& x) { return nanquantile(x, 0.5, 0, true, kind); });
  }
  return calls;
}

TEST(TorchSorting, ValuesIndicesAndGradients) {
  const nlohmann::json all = figures::load("sorting");
  const std::map<std::string, SortingCall> calls = calls_by_name();
  for (Device device : figures::devices()) {
    for (const nlohmann::json& figure : all["cases"]) {
      const std::string called = figure["name"], given = figure["given"],
                        name = device.str() + " " + called + " of " + given;
      SCOPED_TRACE(name);
      Tensor x = figures::tensor(all[given], device);
      if (figure.contains("gradient")) x.requires_grad_();
      const ValuesIndices got = calls.at(called)(x);
      figures::expect_close(got.values, figure["value"], 1e-5, name);
      if (figure.contains("indices")) figures::expect_close(got.indices, figure["indices"], 0, name + ", indices");
      if (!figure.contains("gradient")) continue;
      const TensorList g =
          autograd::grad(TensorList{got.values}, TensorList{x}, TensorList{figures::tensor(figure["seed"], device)});
      figures::expect_close(g[0], figure["gradient"], 1e-5, name + ", gradient");
    }
  }
}

TEST(TorchSorting, SearchAndCounting) {
  const nlohmann::json all = figures::load("sorting");
  for (Device device : figures::devices()) {
    SCOPED_TRACE(device.str());
    auto given = [&](const char* name) { return figures::tensor(all[name], device); };
    const Tensor bounds = given("bounds"), wanted = given("wanted"), x = given("x");
    figures::expect_close(searchsorted(bounds, wanted), all["search"][0], 0, "left");
    figures::expect_close(searchsorted(bounds, wanted, false, true), all["search"][1], 0, "right");
    figures::expect_close(searchsorted(given("rows"), x), all["search"][2], 0, "rows");
    figures::expect_close(bucketize(x, bounds, false, true), all["search"][3], 0, "bucketize");
    auto expect_unique = [&](const Unique& got, const char* name) {
      figures::expect_close(got.values, all[name][0], 0, name);
      figures::expect_close(got.inverse, all[name][1], 0, name);
      figures::expect_close(got.counts, all[name][2], 0, name);
    };
    expect_unique(unique(given("integers"), true, true), "unique");
    expect_unique(unique_consecutive(sort(given("ties").reshape({35})).values, true, true), "runs");
    figures::expect_close(bincount(given("numbers")), all["bincount"][0], 0, "bincount");
    figures::expect_close(bincount(given("numbers"), given("weights"), 7), all["bincount"][1], 1e-6, "weights");
  }
}

}  // namespace
}  // namespace etna
