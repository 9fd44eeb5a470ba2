#include <algorithm>
#include <string_view>
#include <utility>

#include <etna/tensor/ops.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

using Reduce = Tensor (*)(const Tensor&, Dims, bool);

/// Rows, columns, both, all; long enough to be split; empty.
void reduce_add(std::vector<Sample>& all, const char* op, Reduce reduce, bool integers, double lo = -2, double hi = 2) {
  std::string_view name = op;
  bool extreme = name == "max" || name == "min", product = name == "prod";
  auto sample = [&](const char* what, Shape shape, Dims dims, bool keepdim = false) {
    Sample s(op, what);
    s.in(shape, lo, hi).calls([=](const TensorList& in) { return reduce(in[0], dims, keepdim); });
    if (extreme) s.distinct();
    if (name == "std" && numel(shape) == 1) s.gradients(Gradients::none);  // a root has no derivative at 0
    if (name == "var" || name == "std")
      s.looser(4);  // the rounding errors of x - mean are all there is for equal elements
    // Products of integers overflow i8 only if there are many of them.
    if (integers && !(product && numel(shape) > 8)) s.and_integers().and_bool();
    all.push_back(s);
  };
  sample("rows", {5, 7}, {1});
  sample("columns", {7, 9}, {0});
  sample("all", {2, 3, 4}, {});
  sample("outer and inner", {3, 4, 2}, {0, -1}, true);
  sample("middle", {2, 3, 11}, {1}, true);
  sample("three apart", {2, 2, 2, 2, 2}, {0, 2, 4});
  sample("0-d", {}, {});
  sample("size one", {1, 1}, {0});
  sample("no outputs", {0, 3}, {1});
  if (!extreme) sample("of nothing", {3, 0}, {1});
  if (product) return;
  sample("long rows", {3, 1031}, {1});
  sample("tall columns", {1031, 11}, {0});
  sample("whole", {37, 523}, {});
}

Tensor sample_var(const Tensor& x, Dims dims, bool keepdim) { return var(x, dims, keepdim, 0); }
Tensor sample_std(const Tensor& x, Dims dims, bool keepdim) { return etna::std(x, dims, keepdim, 0); }
Tensor sample_norm(const Tensor& x, Dims dims, bool keepdim) { return norm(x, 2, dims, keepdim); }

}  // namespace

std::vector<Sample> samples_in_reduce() {
  std::vector<Sample> all;
  reduce_add(all, "sum", sum, true);
  reduce_add(all, "mean", mean, false);
  reduce_add(all, "prod", prod, true, 0.5, 1.5);
  reduce_add(all, "max", max, true);
  reduce_add(all, "min", min, true);
  reduce_add(all, "logsumexp", logsumexp, false, -6, 6);
  reduce_add(all, "var", sample_var, false);
  reduce_add(all, "std", sample_std, false);
  reduce_add(all, "norm", sample_norm, false, 0.2, 2);
  all.push_back(Sample("sum", "columns in pieces")
                    .in({331, 133})
                    .calls([](const TensorList& in) { return sum(in[0], {0}); })
                    .gradients(Gradients::compared));
  all.push_back(Sample("sum", "columns of a part")
                    .in({3, 67, 40})
                    .calls([](const TensorList& in) {
                      return sum(in[0].slice(2, 1, 35), {0, 1});
                    })
                    .gradients(Gradients::compared));
  all.push_back(
      Sample("sum", "columns to f32")
          .in({19, 52})
          .calls([](const TensorList& in) { return sum(in[0], {0}, false, in[0].dtype() == f64 ? f64 : f32); })
          .gradients(Gradients::none));
  all.push_back(Sample("var", "of a sample").in({5, 7}).calls([](const TensorList& in) { return var(in[0], {1}); }));
  all.push_back(Sample("var", "of one")
                    .in({5, 1})
                    .calls([](const TensorList& in) { return var(in[0], {1}); })
                    .gradients(Gradients::none));
  for (std::vector<double> factors : {std::vector<double>{2, 0, -1, 3}, {2, 0, 0, 3}, {0, 0, 0, 3}}) {
    std::string name = "zeros " + std::to_string(std::count(factors.begin(), factors.end(), 0.0));
    all.push_back(Sample("prod", name).values({4}, factors).calls([](const TensorList& in) { return prod(in[0]); }));
  }
  all.push_back(Sample("max", "equal ones")
                    .in({5, 37}, -3, 3)
                    .whole()
                    .gradients(Gradients::compared)
                    .calls([](const TensorList& in) { return max(in[0], {1}); }));
  using Arg = Tensor (*)(const Tensor&, std::optional<std::int64_t>, bool);
  for (auto [op, arg] : {std::pair<const char*, Arg>{"argmax", argmax}, {"argmin", argmin}}) {
    auto sample = [&, op = op, arg = arg](const char* what, Shape shape, std::optional<std::int64_t> dim) {
      all.push_back(Sample(op, what)
                        .in(shape, -9, 9)
                        .whole()
                        .and_integers()
                        .and_bool()
                        .gradients(Gradients::none)
                        .calls([=](const TensorList& in) { return arg(in[0], dim, true); }));
    };
    sample("rows", {5, 37}, 1);
    sample("columns", {37, 11}, 0);
    sample("all", {3, 4, 5}, {});
    sample("long", {2, 4099}, 1);
    sample("0-d", {}, {});
    sample("no outputs", {0, 3}, 1);
  }
  return all;
}

}  // namespace etna::conformance
