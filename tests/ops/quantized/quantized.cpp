#include <algorithm>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/quantized.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

using namespace quantized;

/// Unquantized weights, so that devices that quantize activations and those that do not agree; block formats are tested
/// in quantized_test.cpp and quantized_gpu_test.cpp. @param options eps: 1 for a bias, 2 also for a norm
Sample quantized_plain(const char* name, DType dtype, Shape x, std::int64_t rows, LinearOptions options = {}) {
  const std::int64_t columns = x[x.rank() - 1];
  return Sample("quantized_linear", name)
      .in(x)
      .in({rows, columns})
      .constant()
      .in({rows}, 0.5, 2)
      .in({columns}, 0.5, 2)
      .calls([=](const TensorList& in) {
        LinearOptions with = options;
        if (options.eps > 0.5) with.bias = in[2];
        if (options.eps > 1.5) with.norm = in[3];
        with.eps = 1e-5;
        const QuantizedTensor weight = QuantizedTensor::unquantized(in[1].to(dtype));
        return linear(in[0], std::span(&weight, 1), with).y;
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
        const QuantizedTensor values = QuantizedTensor::unquantized(in[0].to(f32));
        const DType dtype = in[0].dtype();
        return std::string_view(op) == "dequantize" ? dequantize(values, dtype)
                                                    : quantized_embedding(in[1], values, dtype);
      })
      .gradients(Gradients::none);
}

/// Integers with a scale of 1, so that quants are the same on every device.
std::vector<double> whole_numbers(std::int64_t count) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < count; ++i)
    list.push_back(i % kActivationBlock == 5 ? 127.0 : static_cast<double>(i * i * 7 % 251 - 125));
  return list;
}

Tensor scales_of(const ActivationRows& rows) {
  const ActivationParts parts = parts_of(rows.data);
  return cat({parts.scales, parts.squares}, -1);
}

Sample to_bytes(const char* name, Shape x, bool normed) {
  const std::int64_t columns = x[x.rank() - 1];
  return Sample("quantize_activations", name)
      .values(x, whole_numbers(numel(x)))
      .as(f32)
      .constant()
      .calls([=](const TensorList& in) {
        const ActivationRows rows =
            quantize_activations(in[0], normed ? full({columns}, 2.0, in[0].device()) : Tensor());
        return TensorList{parts_of(rows.data).quants.to(f32), scales_of(rows)};
      })
      .gradients(Gradients::none);
}

/// Two weights of `rows` rows. @param options eps: 1 for a norm before and one after them
Sample of_bytes(const char* name, Shape x, std::int64_t rows, LinearOptions options = {}) {
  const std::int64_t columns = x[x.rank() - 1], results = options.gate == Activation::none ? 2 * rows : rows;
  Shape residual = x;
  residual.back() = results;
  const quant::BlockFormat& format = quant::format_named("Q8_0");
  std::vector<double> blocks;
  for (const std::uint8_t byte :
       quantize(from_vector(whole_numbers(2 * rows * columns), {2 * rows, columns}).to(f32), format)
           .blocks()
           .to_vector<std::uint8_t>())
    blocks.push_back(byte);
  const Shape bytes{std::ssize(blocks)};
  return Sample("quantized_linear", name)
      .values(x, whole_numbers(numel(x)))
      .as(f32)
      .constant()
      .values(bytes, std::move(blocks))
      .as(u8)
      .constant()
      .dense()
      .in(residual)
      .as(f32)
      .constant()
      .calls([=, &format](const TensorList& in) {
        const Tensor device_ones = ones({columns}, in[0].device());
        const ActivationRows given = quantize_activations(in[0], options.eps > 0.5 ? device_ones : Tensor());
        const std::int64_t half = in[1].numel() / 2;
        const QuantizedTensor weights[] = {{format, {rows, columns}, in[1].slice(0, 0, half)},
                                           {format, {rows, columns}, in[1].slice(0, half, 2 * half)}};
        LinearOptions with = options;
        with.eps = 1e-5;
        with.residual = in[2];
        const LinearResult y = linear(given, weights, with);
        TensorList all{scales_of(given), y.y};
        if (options.next) all.push_back(scales_of(y.next));
        return all;
      })
      .with_subgroups()
      .gradients(Gradients::none);
}

/// Activations times their factor, so that devices may choose different powers of two.
Tensor numbers(const ActivationRows& rows) {
  const Tensor x = rows.data.to(f32);
  return rows.factor.defined() ? x * rows.factor : x;
}

Sample to_16_bits(const char* name, Shape x, DType dtype, bool normed) {
  return Sample("quantize_activations", name)
      .in(x)
      .as(f32)
      .constant()
      .in({x.back()}, 0.5, 2)
      .as(f32)
      .constant()
      .calls([=](const TensorList& in) {
        return TensorList{numbers(quantize_activations(in[0], normed ? in[1] : Tensor(), dtype))};
      })
      .looser(dtype == f16 ? 400 : 3000)
      .gradients(Gradients::none);
}

/// Two weights of `rows` rows, with a residual. @param normed a norm follows; the result is quantized for it
Sample of_16_bits(const char* name, Shape x, std::int64_t rows, LinearOptions options, bool normed = true) {
  const std::int64_t columns = x.back(), results = options.gate == Activation::none ? 2 * rows : rows;
  Shape residual = x;
  residual.back() = results;
  return Sample("quantized_linear", name)
      .in(x)
      .as(f32)
      .constant()
      .in({2 * rows, columns})
      .as(f32)
      .constant()
      .in(residual)
      .as(f32)
      .constant()
      .in({results}, 0.5, 2)
      .as(f32)
      .constant()
      .calls([=](const TensorList& in) {
        const ActivationRows given = quantize_activations(in[0], {}, f16);
        const QuantizedTensor weights[] = {QuantizedTensor::unquantized(in[1].slice(0, 0, rows).to(f16)),
                                           QuantizedTensor::unquantized(in[1].slice(0, rows, 2 * rows).to(f16))};
        LinearOptions with = options;
        with.residual = in[2];
        if (with.next && normed) with.next_norm = in[3];
        const LinearResult y = linear(given, weights, with);
        TensorList all{y.y};
        if (options.next) all.push_back(numbers(y.next));
        return all;
      })
      .looser(400)
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_quantized() {
  return {quantized_plain("one row", f32, {1, 16}, 5, {.eps = 0}),
          quantized_plain("prime sizes", f32, {3, 67}, 131, {.eps = 1}),
          quantized_plain("many rows", f32, {17, 24}, 7, {.eps = 0}),
          quantized_plain("normed", f32, {2, 2, 32}, 6, {.eps = 2}),
          quantized_plain("no rows", f32, {0, 16}, 5, {.eps = 0}),
          to_bytes("rows", {2, 3, 64}, false),
          to_bytes("more than a workgroup", {2, 1184}, true),
          to_bytes("no rows", {0, 64}, true),
          of_bytes("one row in bytes", {1, 64}, 7),
          of_bytes("normed in bytes", {2, 3, 128}, 5, {.eps = 1}),
          of_bytes("gated and rounded", {3, 64}, 32, {.gate = Activation::silu, .next = i8}),
          of_bytes("two weights, rounded", {1, 256}, 64, {.eps = 1, .next = i8}),
          of_bytes("no rows in bytes", {0, 64}, 32, {.next = i8}),
          to_16_bits("f16", {2, 3, 50}, f16, false),
          to_16_bits("normed f16", {5, 1030}, f16, true),
          to_16_bits("no rows of f16", {0, 8}, f16, true),
          to_16_bits("normed bf16", {3, 7}, bf16, true),
          of_16_bits("two weights", {9, 40}, 7, {}),
          of_16_bits("gated and normed", {2, 5, 24}, 12, {.gate = Activation::silu, .next = f16}),
          of_16_bits("gated and scaled", {9, 40}, 6, {.gate = Activation::silu, .next = f16}, false),
          of_16_bits("no rows in 16 bits", {0, 24}, 12, {.next = f16}),
          table("dequantize", "rows", 7),
          table("dequantize", "no rows", 0),
          table("quantized_embedding", "rows", 7),
          table("quantized_embedding", "no rows", 7, 0)};
}

}  // namespace etna::conformance
