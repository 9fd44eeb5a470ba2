#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <torch/cases.h>

namespace etna {
namespace {

using TorchComposedIn = const TensorList&;

/// All elements of some tensors, each times its number, from 1 on, if `weighted`.
Tensor flat(const std::vector<Tensor>& parts, bool weighted = false) {
  std::vector<Tensor> lists;
  for (const Tensor& part : parts) {
    const Tensor list = part.reshape({part.numel()});
    lists.push_back(weighted ? list * static_cast<double>(lists.size() + 1) : list);
  }
  return cat(lists, 0);
}

Tensor corrcoef_apart(const Tensor& x) {
  const Tensor all = corrcoef(x);
  return all - triu(tril(all));
}

Tensor eig_free(const Tensor& a) {
  const linalg::Eig e = linalg::eig(a);
  const Tensor lr = e.eigenvalues.real, li = e.eigenvalues.imag;
  const Tensor cubes = sum(lr * lr * lr - lr * li * li * 3.0, -1, true).expand(lr.shape());
  const Tensor size = square(e.eigenvectors.real) + square(e.eigenvectors.imag);
  return stack({cubes, sum(size, -1), sum(size * lr.unsqueeze(-2), -1)}, -2);
}

Tensor listed(std::vector<double> values, const Tensor& like) {
  return from_vector(values).to(like.dtype()).to(like.device());
}
Tensor at(const Tensor& like) { return listed({0.0, 0.5, 1.75, 2, 4.25}, like); }
Tensor fweights(const Tensor& like) { return from_vector<std::int64_t>({1, 3, 2, 1, 2}).to(like.device()); }
Tensor aweights(const Tensor& like) { return listed({0.5, 1, 2, 0.25, 1}, like); }

std::map<std::string, figures::Function> torch_composed_calls() {
  using Coordinates = std::vector<Tensor>;
  using Distances = std::vector<double>;
  using Places = std::vector<std::int64_t>;
  std::map<std::string, figures::Function> all = {
      {"diff", [](TorchComposedIn in) { return diff(in[0]); }},
      {"diff twice", [](TorchComposedIn in) { return diff(in[0], 2, 0); }},
      {"diff all", [](TorchComposedIn in) { return diff(in[0], 9, 0); }},
      {"diff joined", [](TorchComposedIn in) { return diff(in[0], 1, -1, in[1], in[2]); }},
      {"gradient", [](TorchComposedIn in) { return flat(gradient(in[0])); }},
      {"gradient spacing",
       [](TorchComposedIn in) {
         return flat(gradient(in[0], Distances{2, 0.5}, {}, 2));
       }},
      {"gradient dim", [](TorchComposedIn in) { return flat(gradient(in[0], 0.5, 1)); }},
      {"gradient coordinates", [](TorchComposedIn in) { return flat(gradient(in[0], Coordinates{at(in[0])}, -1)); }},
      {"gradient coordinates 2",
       [](TorchComposedIn in) { return flat(gradient(in[0], Coordinates{at(in[0])}, -1, 2)); }},
      {"trapezoid", [](TorchComposedIn in) { return trapezoid(in[0], 0.5); }},
      {"trapezoid x", [](TorchComposedIn in) { return trapezoid(in[0], in[1]); }},
      {"trapezoid x dim", [](TorchComposedIn in) { return trapezoid(in[0], in[1], 0); }},
      {"cumulative_trapezoid", [](TorchComposedIn in) { return cumulative_trapezoid(in[0], 1, 0); }},
      {"cumulative_trapezoid x", [](TorchComposedIn in) { return cumulative_trapezoid(in[0], in[1]); }},
      {"cov", [](TorchComposedIn in) { return cov(in[0]); }},
      {"cov list", [](TorchComposedIn in) { return cov(in[0]); }},
      {"cov weights", [](TorchComposedIn in) { return cov(in[0], 1, fweights(in[0]), aweights(in[0])); }},
      {"cov fweights", [](TorchComposedIn in) { return cov(in[0], 0, fweights(in[0])); }},
      {"corrcoef", [](TorchComposedIn in) { return corrcoef_apart(in[0]); }},
      {"dist", [](TorchComposedIn in) { return dist(in[0], in[1]); }},
      {"dist 3", [](TorchComposedIn in) { return in[0].dist(in[1], 3); }},
      {"renorm", [](TorchComposedIn in) { return renorm(in[0], 2, 0, 1.5); }},
      {"renorm 1", [](TorchComposedIn in) { return in[0].renorm(1, -1, 2); }},
      {"block_diag",
       [](TorchComposedIn in) {
         return block_diag({in[0], in[1], in[2]});
       }},
      {"diagflat", [](TorchComposedIn in) { return diagflat(in[0], -1); }},
      {"combinations", [](TorchComposedIn in) { return combinations(in[0], 3); }},
      {"combinations replaced", [](TorchComposedIn in) { return combinations(in[0], 2, true); }},
      {"combinations 1", [](TorchComposedIn in) { return combinations(in[0], 1); }},
      {"tensor_split", [](TorchComposedIn in) { return flat(tensor_split(in[0], 3, 1), true); }},
      {"tensor_split at",
       [](TorchComposedIn in) {
         return flat(in[0].tensor_split(Places{1, -2, 4, 99}, 1), true);
       }},
      {"broadcast",
       [](TorchComposedIn in) {
         const std::vector<Tensor> both = broadcast_tensors({in[0], in[1]});
         return both[0] + both[1];
       }},
      {"householder_product", [](TorchComposedIn in) { return linalg::householder_product(in[0], in[1]); }},
      {"eig", [](TorchComposedIn in) { return eig_free(in[0]); }},
      {"grid volume nearest", [](TorchComposedIn in) { return grid_sample(in[0], in[1], GridSampleMode::nearest); }},
  };
  for (const char* reduce : {"prod", "mean", "amax", "amin"}) {
    for (bool include : {true, false}) {
      all[std::string("index_reduce ") + reduce + (include ? " True" : " False")] = [=](TorchComposedIn in) {
        const Tensor index = from_vector<std::int64_t>({2, 0, 2, 1}).to(in[0].device());
        return index_reduce(in[0], 1, index, in[1], reduce, include);
      };
    }
  }
  const std::map<std::string, GridPadding> paddings = {
      {"zeros", GridPadding::zeros}, {"border", GridPadding::border}, {"reflection", GridPadding::reflection}};
  for (const auto& entry : paddings) {
    const GridPadding padding = entry.second;
    for (bool corners : {true, false}) {
      const std::string rest = entry.first + (corners ? " True" : " False");
      for (bool volume : {true, false}) {
        const GridSampleMode mode = volume ? GridSampleMode::bilinear : GridSampleMode::bicubic;
        all[(volume ? "grid volume " : "grid bicubic ") + rest] = [=](TorchComposedIn in) {
          return grid_sample(in[0], in[1], mode, padding, corners);
        };
      }
    }
  }
  return all;
}

TEST(TorchComposed, ValuesAndGradients) {
  const nlohmann::json cases = figures::load("composed")["cases"];
  const std::map<std::string, figures::Function> functions = torch_composed_calls();
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : cases.items()) {
      ASSERT_TRUE(functions.contains(name)) << name;
      if (!device.is_cpu() && name == "eig") continue;  // has no kernel there
      const DType t = name == "eig" ? f64 : f32;        // its gradient divides by differences of eigenvalues
      figures::expect_case(figure, functions.at(name), device, t, 1e-5, name + " on " + device.str());
    }
  }
}

TEST(TorchComposed, DistinctSlices) {
  const nlohmann::json all = figures::load("composed")["unique"];
  for (Device device : figures::devices()) {
    const Tensor x = figures::tensor(all["x"], device);
    for (const auto& entry : all["dims"]) {
      const auto dim = entry["dim"].get<std::int64_t>();
      const bool consecutive = entry["consecutive"].get<bool>();
      const Unique found = consecutive ? unique_consecutive(x, true, true, dim) : unique(x, true, true, dim);
      const std::string what = (consecutive ? "unique_consecutive " : "unique ") + std::to_string(dim);
      figures::expect_close(found.values, entry["found"][0], 0, what);
      figures::expect_close(found.inverse, entry["found"][1], 0, what + ", inverse");
      figures::expect_close(found.counts, entry["found"][2], 0, what + ", counts");
    }
  }
}

}  // namespace
}  // namespace etna
