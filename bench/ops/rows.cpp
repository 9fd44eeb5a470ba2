#include <etna/tensor/autocast.h>

#include "case.h"

/// Reductions, softmax and norms. Rows are those of the hidden layer, [rows, ffn], or of the residual stream, [rows,
/// dim].
namespace bench {

using namespace etna;

Cases row_cases(const Workload& w) {
  const Shape wide{w.rows(), w.model.feed_forward}, stream{w.rows(), w.model.width};
  const std::int64_t dim = w.model.width;
  const auto n = static_cast<double>(w.rows() * w.model.feed_forward), s = static_cast<double>(w.rows() * dim);
  Cases cases;
  auto forward = [&](const char* name, double bytes, const Shape& shape, Tensor (*f)(const Tensor&)) {
    cases.push_back({name, bytes, 0, [=](Device d) { return untaped([=, x = normal(shape, d)] { f(x); }); }});
  };
  forward("sum_rows", 4 * n, wide, [](const Tensor& x) { return sum(x, {1}); });
  forward("sum_columns", 4 * n, wide, [](const Tensor& x) { return sum(x, {0}); });
  forward("sum_all", 4 * n, wide, [](const Tensor& x) { return sum(x); });
  forward("max_rows", 4 * n, wide, [](const Tensor& x) { return max(x, {1}); });
  forward("argmax_rows", 4 * n, wide, [](const Tensor& x) { return argmax(x, 1); });
  forward("softmax", 8 * n, wide, [](const Tensor& x) { return softmax(x, 1); });
  forward("log_softmax", 8 * n, wide, [](const Tensor& x) { return log_softmax(x, 1); });
  forward("rms_norm", 8 * s, stream, [](const Tensor& x) { return rms_norm(x, {}); });

  cases.push_back({"softmax_backward", 12 * n, 0, [=](Device d) {
                     Tensor x = normal(wide, d).requires_grad_();
                     return backward_of(softmax(x, 1), {x});
                   }});
  cases.push_back({"layer_norm", 8 * s, 0, [=](Device d) {
                     return untaped([x = normal(stream, d), weight = normal({dim}, d), bias = normal({dim}, d)] {
                       layer_norm(x, weight, bias);
                     });
                   }});
  // An f32 residual stream that adds a narrow delta: reads 6 bytes per element, writes 6.
  cases.push_back({"add_layer_norm/bf16", 12 * s, 0, [=](Device d) {
                     Tensor x = normal(stream, d), delta = normal(stream, d, bf16), weight = normal({dim}, d);
                     return untaped([=, bias = normal({dim}, d)] {
                       auto mixed = autocast(bf16);
                       add_layer_norm(x, delta, weight, bias);
                     });
                   }});
  cases.push_back({"layer_norm_backward", 12 * s, 0, [=](Device d) {
                     Tensor x = normal(stream, d).requires_grad_();
                     Tensor weight = normal({dim}, d).requires_grad_(), bias = normal({dim}, d).requires_grad_();
                     return backward_of(layer_norm(x, weight, bias), {x, weight, bias});
                   }});
  return cases;
}

}  // namespace bench
