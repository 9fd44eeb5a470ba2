#include <etna/models/model_file.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/internal/cpu/parallel.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/linalg/linalg.h>
#include <etna/tensor/quant/internal/block_bytes.h>

namespace etna::models {
namespace {

constexpr std::int64_t kBlock = 32;
constexpr int kLast = 15;

/// The line of a block's values: code · step + first.
struct Line {
  double step, first;
};

Line line_of(const quant::BlockFormat& format, const std::byte* block) {
  const double step = quant::load_f16(block);
  return {step, format.name == "Q4_0" ? -8 * step : static_cast<double>(quant::load_f16(block + 2))};
}

void pack(const quant::BlockFormat& format, const std::array<unsigned, kBlock>& codes, std::byte* block) {
  std::byte* bytes = block + (format.name == "Q4_0" ? 2 : 4);
  for (std::size_t i = 0; i < kBlock / 2; ++i) bytes[i] = quant::to_byte(codes[i] | codes[i + kBlock / 2] << 4);
}

const quant::BlockFormat& gptq_checked(const quant::BlockFormat& format) {
  if (format.name != "Q4_0" && format.name != "Q4_1")
    throw Error(fmt::format("gptq: the format is {}; wanted Q4_0 or Q4_1", format.name));
  return format;
}

/// Rounds one row. @param u the upper Cholesky factor of the inverse of the moments, [K, K]
void round_row(const quant::BlockFormat& format, std::vector<double>& row, const double* u, std::byte* out) {
  const auto columns = static_cast<std::int64_t>(row.size());
  std::array<float, kBlock> values, ones;
  ones.fill(1);
  for (std::int64_t first = 0; first < columns; first += kBlock, out += format.bytes) {
    // The scale fits what earlier columns have made of these.
    for (std::int64_t i = 0; i < kBlock; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(row[static_cast<std::size_t>(first + i)]);
    format.encode(values.data(), ones.data(), out, 1);
    const Line line = line_of(format, out);
    std::array<unsigned, kBlock> codes{};
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const std::int64_t k = first + i;
      const double value = row[static_cast<std::size_t>(k)];
      const double place = line.step != 0 ? std::nearbyint((value - line.first) / line.step) : 0;
      const double code = std::clamp(place, 0.0, static_cast<double>(kLast));
      codes[static_cast<std::size_t>(i)] = static_cast<unsigned>(code);
      const double error = (value - (code * line.step + line.first)) / u[k * columns + k];
      for (std::int64_t j = k + 1; j < columns; ++j) row[static_cast<std::size_t>(j)] -= error * u[k * columns + j];
    }
    pack(format, codes, out);
  }
}

/// Sums Σ xᵀx of what goes into layers.
class Moments {
 public:
  /// Watches a layer while it lives.
  void watch(Projection& layer) {
    handles_.push_back(layer.register_forward_pre_hook([this, &layer](const nn::Module&, const TensorList& in) {
      const Tensor x = in[0].detach().to(f64).reshape({-1, layer.in});
      Tensor& sum = sums_[&layer];
      const Tensor more = matmul(x.t(), x);
      sum = sum.defined() ? sum + more : more;
      return TensorList{};
    }));
  }
  void stop() {
    for (HookHandle& handle : handles_) handle.remove();
    handles_.clear();
  }
  const Tensor& of(const Projection& layer) const { return sums_.at(&layer); }

 private:
  std::map<const Projection*, Tensor> sums_;
  std::vector<HookHandle> handles_;
};

std::vector<Projection*> gptq_layers_of(DecoderBlock& block) {
  std::vector<Projection*> layers;
  for (const NamedProjection& own : block.projections())
    if (own.layer->in % kBlock == 0) layers.push_back(own.layer);
  return layers;
}

}  // namespace

QuantizedTensor gptq(const Tensor& weight, const Tensor& moments, const quant::BlockFormat& format, double damping) {
  gptq_checked(format);
  if (weight.dim() != 2 || weight.size(1) % kBlock != 0 || moments.shape() != Shape{weight.size(1), weight.size(1)}) {
    throw ShapeError(
        fmt::format("gptq: the weight is {}, the moments are {}; wanted [N, K] and [K, K], K a multiple of {}",
                    str(weight.shape()), str(moments.shape()), kBlock));
  }
  const std::int64_t rows = weight.size(0), columns = weight.size(1);
  const Tensor values = weight.detach().to(kCPU, f64).contiguous();
  Tensor damped = moments.to(kCPU, f64).contiguous();
  double mean = 0;
  for (std::int64_t i = 0; i < columns; ++i)
    mean += damped.data<double>()[i * columns + i] / static_cast<double>(columns);
  // Inputs that were never anything but 0 must not make it singular.
  damped = damped + eye(columns, columns, {f64}) * std::max(damping * mean, 1e-12);
  const Tensor factor = linalg::cholesky(linalg::inv(damped), true).contiguous();
  const double* u = factor.data<double>();
  Tensor blocks = empty({static_cast<std::int64_t>(quant::storage_bytes(format, rows * columns))}, u8);
  auto* bytes = reinterpret_cast<std::byte*>(blocks.mutable_data<std::uint8_t>());
  const std::size_t row_bytes = static_cast<std::size_t>(columns / kBlock) * format.bytes;
  cpu::parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::vector<double> row(values.data<double>() + r * columns, values.data<double>() + (r + 1) * columns);
      round_row(format, row, u, bytes + static_cast<std::size_t>(r) * row_bytes);
    }
  });
  return {format, weight.shape(), blocks};
}

void quantize_gptq(Decoder& decoder, std::span<const std::vector<std::int32_t>> texts, const GptqOptions& options) {
  decoder.require_whole("quantize_gptq");
  const quant::BlockFormat& format =
      gptq_checked(options.format != nullptr ? *options.format : quant::format_named("Q4_0"));
  if (decoder.frozen()) throw Error("quantize_gptq: the decoder's weights are rounded already; load it trainable");
  if (decoder.layer_inputs || decoder.streams)
    throw Error(
        fmt::format("quantize_gptq: blocks of '{}' read more than the residual stream; choose a format that "
                    "rounds each weight on its own",
                    decoder.config.architecture));
  if (texts.empty()) throw Error("quantize_gptq: there is no text; give it some like those the model is for");
  const NoGrad no_grad;
  std::vector<Tensor> streams;
  for (const std::vector<std::int32_t>& text : texts) {
    const auto length = static_cast<std::int64_t>(text.size());
    if (length == 0 || length > decoder.config.context) {
      throw ShapeError(
          fmt::format("quantize_gptq: a text has {} tokens; wanted 1 to {}", length, decoder.config.context));
    }
    streams.push_back(decoder.embedded(from_vector(text, {1, length})));
  }
  for (std::size_t i = 0; i < decoder.blocks.size(); ++i) {
    if (options.progress && !options.progress(static_cast<std::int64_t>(i))) return;
    DecoderBlock& block = decoder.blocks[i];
    const std::vector<Projection*> layers = gptq_layers_of(block);
    Moments moments;
    for (Projection* layer : layers) moments.watch(*layer);
    for (const Tensor& x : streams) block(x);
    moments.stop();
    for (Projection* layer : layers) layer->freeze(gptq(layer->weight, moments.of(*layer), format, options.damping));
    // Later blocks learn from what the rounded ones give.
    for (Tensor& x : streams) x = block(x);
  }
}

}  // namespace etna::models
