#include <etna/tensor/ops.h>
#include <etna/tensor/ops/quantized/internal/expert_linear.h>

#include "conformance/samples.h"

namespace etna::conformance {
namespace {

/// @param x [rows, columns], or [rows, choices, columns]
Sample chosen(const char* name, DType dtype, Shape x, std::int64_t choices, std::int64_t experts, std::int64_t rows,
              const ExpertMatmulOptions& options = {}) {
  return Sample("expert_linear", name)
      .in(x)
      .in(options.transposed ? Shape{experts * x.back(), rows} : Shape{experts * rows, x.back()})
      .constant()
      .index({x[0], choices}, 0, static_cast<double>(experts))
      .calls([=](const TensorList& in) {
        return expert_linear(in[0], QuantizedTensor::unquantized(in[1].to(dtype)), in[2], experts, options);
      })
      .in_dtypes({f32, f16})
      .gradients(Gradients::first);
}

/// Integers, which Q8_0 holds exactly and no device rounds.
Sample in_blocks(const char* name, Shape x, std::int64_t choices, std::int64_t experts, std::int64_t rows) {
  const std::int64_t columns = x.back();
  std::vector<double> list;
  for (std::int64_t i = 0; i < experts * rows * columns; ++i)
    list.push_back(i % 32 == 5 ? 127.0 : static_cast<double>(i * 7 % 251 - 125));
  const quant::BlockFormat& format = quant::format_named("Q8_0");
  std::vector<double> blocks;
  for (const std::uint8_t byte :
       quantize(from_vector(list, {experts * rows, columns}).to(f32), format).blocks().to_vector<std::uint8_t>())
    blocks.push_back(byte);
  std::vector<double> given;
  for (std::int64_t i = 0; i < numel(x); ++i) given.push_back(i % 16 == 3 ? 127.0 : static_cast<double>(i % 13 - 6));
  const Shape bytes{std::ssize(blocks)};
  return Sample("expert_linear", name)
      .values(x, std::move(given))
      .as(f32)
      .constant()
      .values(bytes, std::move(blocks))
      .as(u8)
      .constant()
      .dense()
      .index({x[0], choices}, 0, static_cast<double>(experts), i32)
      .calls([=, &format](const TensorList& in) {
        return expert_linear(in[0], {format, {experts * rows, columns}, in[1]}, in[2], experts);
      })
      .gradients(Gradients::none);
}

}  // namespace

std::vector<Sample> samples_in_expert_linear() {
  return {chosen("rows", f32, {5, 8}, 2, 3, 6),
          chosen("prime sizes", f32, {7, 67}, 3, 5, 131),
          chosen("a row for each choice", f32, {3, 2, 24}, 2, 4, 5),
          chosen("sorted rows", f32, {29, 19}, 3, 5, 23),
          chosen("a row for each choice, sorted", f32, {10, 2, 24}, 2, 4, 5),
          chosen("weights in f16", f16, {3, 40}, 2, 4, 7),
          chosen("summed", f32, {5, 8}, 2, 3, 6, {.summed = true}),
          chosen("transposed", f32, {7, 6}, 2, 3, 10, {.transposed = true}),
          chosen("transposed of prime sizes", f32, {37, 3, 67}, 3, 5, 131, {.transposed = true, .summed = true}),
          chosen("one expert", f32, {4, 16}, 1, 1, 9),
          chosen("no rows", f32, {0, 16}, 2, 4, 5),
          in_blocks("in blocks", {3, 64}, 2, 4, 10),
          in_blocks("in blocks, sorted", {9, 64}, 1, 4, 10)};
}

}  // namespace etna::conformance
