#include <functional>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>
#include <torch/figures.h>

namespace etna {
namespace {

Slice::Bound bound(const nlohmann::json& n) {
  return n.is_null() ? Slice::Bound() : Slice::Bound(n.get<std::int64_t>());
}

std::vector<Index> indices_of(const nlohmann::json& entries, Device device) {
  std::vector<Index> all;
  for (const nlohmann::json& entry : entries) {
    const auto only = entry.begin();
    const std::string& kind = only.key();
    const nlohmann::json& value = only.value();
    if (kind == "int") all.emplace_back(value.get<std::int64_t>());
    if (kind == "bool") all.emplace_back(value.get<bool>());
    if (kind == "none") all.emplace_back(None);
    if (kind == "ellipsis") all.emplace_back(Ellipsis);
    if (kind == "tensor") all.emplace_back(figures::tensor(value, device));
    if (kind == "slice") all.emplace_back(Slice(bound(value[0]), bound(value[1]), value[2].get<std::int64_t>()));
  }
  return all;
}

TEST(TorchIndexing, EveryKindOfIndexReadsAndWrites) {
  const nlohmann::json all = figures::load("indexing");
  for (Device device : figures::devices()) {
    const Tensor x = figures::tensor(all["x"], device);
    for (const nlohmann::json& figure : all["cases"]) {
      const std::string name = device.str() + " " + figure["index"].dump();
      SCOPED_TRACE(name);
      const std::vector<Index> indices = indices_of(figure["index"], device);
      Tensor leaf = x.clone().requires_grad_();
      const Tensor y = index(leaf, indices), seed = figures::tensor(figure["seed"], device);
      figures::expect_close(y, figure["value"], 1e-6, name);
      const TensorList g = autograd::grad(TensorList{y}, TensorList{leaf}, TensorList{seed});
      figures::expect_close(g[0], figure["gradient"], 1e-5, name + ", gradient");

      const Tensor values = figures::tensor(figure["values"], device);
      Tensor put = x.clone(), added = x.clone();
      index_put_(put, indices, values);
      figures::expect_close(put, figure["put"], 1e-6, name + ", put");
      index_put_(added, indices, seed, true);
      figures::expect_close(added, figure["added"], 1e-5, name + ", added");
      figures::expect_close(index_put(x, indices, values), figure["put"], 1e-6, name + ", index_put");
      figures::expect_close(index_put(x, indices, seed, true), figure["added"], 1e-5, name + ", index_put, added");
      // Into a view with other strides.
      Tensor around = zeros({5, 3, 4}, device), turned = around.transpose(0, 2);
      turned.copy_(x);
      index_put_(turned, indices, values);
      figures::expect_close(turned, figure["put"], 1e-6, name + ", put into a view");
    }
    for (const nlohmann::json& figure : all["backwards"]) {
      const std::string name = device.str() + " " + figure["index"].dump();
      const std::vector<Index> indices = indices_of(figure["index"], device);
      figures::expect_close(index(x, indices), figure["value"], 1e-6, name);
      const Shape shape = index(x, indices).shape();
      Tensor put = x.clone();
      index_put_(put, indices, arange(numel(shape), {f32, device}).reshape(shape));
      figures::expect_close(put, figure["put"], 1e-6, name + ", put");
    }
  }
}

TEST(TorchIndexing, WritesByIndexAndTheirGradients) {
  const nlohmann::json all = figures::load("indexing");
  for (Device device : figures::devices()) {
    const Tensor at = figures::tensor(all["index"], device), twice = figures::tensor(all["twice"], device);
    const Tensor rows = figures::tensor(all["rows"], device), flat = figures::tensor(all["flat"], device);
    const Tensor mask = figures::tensor(all["mask3"], device), seed = figures::tensor(all["seed"], device);
    Tensor x = figures::tensor(all["x"], device), source = figures::tensor(all["source"], device);
    // Negative numbers // 2, as Python has it.
    const Tensor halved = from_vector([&] {
                            std::vector<std::int64_t> values = flat.to_vector<std::int64_t>();
                            for (std::int64_t& v : values) v = v >> 1;
                            return values;
                          }())
                              .reshape(flat.shape())
                              .to(device);
    auto part = [](const Tensor& t) { return t.slice(0, 0, 3).slice(1, 0, 2).slice(2, 0, 2); };
    auto first = [&](const Tensor& t) { return t.reshape({60}).slice(0, 0, 20).reshape({4, 5}); };
    const Tensor one = ones({4, 3, 5}, device);
    using Call = std::function<Tensor(const Tensor&, const Tensor&)>;
    std::map<std::string, Call> calls = {
        {"scatter", [&](const Tensor& a, const Tensor& b) { return scatter(a, 2, at, b); }},
        {"scatter_part", [&](const Tensor& a, const Tensor& b) { return scatter(a, 2, part(at), b); }},
        {"scatter_number", [&](const Tensor& a, const Tensor&) { return scatter(a, 1, twice.slice(1, 0, 1), 2.5); }},
        {"scatter_add", [&](const Tensor& a, const Tensor& b) { return scatter_add(a, 1, twice, b); }},
        {"index_add", [&](const Tensor& a, const Tensor& b) { return index_add(a, 0, rows, b.slice(0, 0, 3), 0.5); }},
        {"index_add_middle", [&](const Tensor& a, const Tensor& b) { return index_add(a, 1, rows, b); }},
        {"index_copy",
         [&](const Tensor& a, const Tensor& b) {
           return index_copy(a, 1, from_vector<std::int64_t>({2, 0}, device), b.slice(1, 0, 2));
         }},
        {"index_fill",
         [&](const Tensor& a, const Tensor&) {
           return index_fill(a, 2, from_vector<std::int64_t>({1, 4}, device), -1.5);
         }},
        {"masked_scatter", [&](const Tensor& a, const Tensor& b) { return masked_scatter(a, mask, b); }},
        {"put", [&](const Tensor& a, const Tensor& b) { return put(a, flat, first(b)); }},
        {"put_accumulate", [&](const Tensor& a, const Tensor& b) { return put(a, halved, first(b), true); }},
        {"take", [&](const Tensor& a, const Tensor&) { return take(a, flat.reshape({20}).slice(0, 0, 1)) * one; }},
        {"take_along_dim", [&](const Tensor& a, const Tensor&) { return take_along_dim(a, twice, 1); }},
        {"masked_select", [&](const Tensor& a, const Tensor&) { return masked_select(a, mask).sum() * one; }},
    };
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
      for (bool own : {false, true}) {
        calls[std::string("scatter_reduce_") + reduce + (own ? "_1" : "_0")] = [=](const Tensor& a, const Tensor& b) {
          return scatter_reduce(a, 1, twice, b, reduce, own);
        };
      }
    }
    for (const nlohmann::json& figure : all["writes"]) {
      const std::string name = device.str() + " " + figure["name"].get<std::string>();
      SCOPED_TRACE(name);
      Tensor a = x.clone().requires_grad_(), b = source.clone().requires_grad_();
      const Tensor y = calls.at(figure["name"])(a, b);
      figures::expect_close(y, figure["value"], 1e-5, name);
      const Tensor scalar = sum(y * seed) + sum(a * 0.0) + sum(b * 0.0);
      const TensorList g = autograd::grad(TensorList{scalar}, TensorList{a, b});
      for (std::size_t i = 0; i < figure["gradients"].size(); ++i) {
        Tensor got = g[i];
        const nlohmann::json& want = figure["gradients"][i];
        figures::expect_close(got, want, 1e-5, name + ", gradient");
      }
    }
    figures::expect_close(nonzero(mask), all["nonzero"], 0, "nonzero");
    figures::expect_close(take(x, flat), all["take"], 1e-6, "take");
    Tensor y = x.clone();
    scatter_(y, 2, at, source);
    figures::expect_close(y, all["writes"][0]["value"], 1e-6, "scatter_");
  }
}

}  // namespace
}  // namespace etna
