#include <etna/tensor/ops.h>
#include <etna/tensor/quant/quantized_tensor.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

/// Weights as they are, so that devices that round activations to codes and those that do not give the same; block
/// formats are in quantized_test.cpp and quantized_gpu_test.cpp. @param options eps: 1 for a bias, 2 also for a norm
Sample plain(const char* name, DType dtype, Shape x, std::int64_t rows, QuantizedLinearOptions options = {}) {
  const std::int64_t columns = x[x.rank() - 1];
  return Sample("quantized_linear", name)
      .in(x)
      .in({rows, columns})
      .constant()
      .in({rows}, 0.5, 2)
      .in({columns}, 0.5, 2)
      .calls([=](const TensorList& in) {
        QuantizedLinearOptions with = options;
        if (options.eps > 0.5) with.bias = in[2];
        if (options.eps > 1.5) with.norm = in[3];
        with.eps = 1e-5;
        return quantized_linear(in[0], QuantizedTensor::plain(in[1].to(dtype)), with);
      })
      .in_dtypes({f32, f16})
      .gradients(Gradients::first);
}

Sample table(const char* op, const char* name, std::int64_t rows, std::int64_t indices = 5) {
  return Sample(op, name)
      .in({rows, 8})
      .constant()
      .index({indices}, 0, std::max<std::int64_t>(rows, 1))
      .calls([op](const TensorList& in) {
        const QuantizedTensor values = QuantizedTensor::plain(in[0].to(f32));
        const DType dtype = in[0].dtype();
        return std::string_view(op) == "dequantize" ? dequantize(values, dtype)
                                                    : quantized_embedding(in[1], values, dtype);
      })
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_quantized() {
  return {plain("one row", f32, {1, 16}, 5, {.eps = 0}),
          plain("prime sizes", f32, {3, 67}, 131, {.eps = 1}),
          plain("many rows", f32, {17, 24}, 7, {.eps = 0}),
          plain("normed", f32, {2, 2, 32}, 6, {.eps = 2}),
          plain("no rows", f32, {0, 16}, 5, {.eps = 0}),
          table("dequantize", "rows", 7),
          table("dequantize", "no rows", 0),
          table("quantized_embedding", "rows", 7),
          table("quantized_embedding", "no rows", 7, 0)};
}

}  // namespace etna::conformance
