#include <etna/models/model_file.h>

#include <cmath>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/logits_check.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/quant/block_format.h>

namespace etna::models {
namespace {

void check_tensor(const std::string& name, const QuantizedTensor& tensor) {
  const QuantizedTensor here = tensor.to(kCPU);
  const Tensor bytes = here.blocks();
  const std::span all(reinterpret_cast<const std::byte*>(bytes.data<std::uint8_t>()),
                      static_cast<std::size_t>(bytes.numel()));
  for (const quant::Finding& finding : quant::find_suspicious(here.format(), all, numel(here.shape()))) {
    if (finding.kind == quant::Finding::Kind::not_finite || finding.kind == quant::Finding::Kind::scale)
      throw SuspiciousWeights(fmt::format("{}: {}", name, finding.text));
  }
}

}  // namespace

void check_logits_range(double least, double most, bool several, const char* text) {
  if (!std::isfinite(least) || !std::isfinite(most)) {
    throw SuspiciousWeights(fmt::format(
        "what the model computes from {} is NaN or infinite, so its weights are damaged; etna inspect --check names "
        "damaged ones",
        text));
  }
  if (least == most && several) {
    throw SuspiciousWeights(fmt::format(
        "to the model, all tokens behind {} are equally likely, so its weights are damaged; etna inspect --check names "
        "damaged ones",
        text));
  }
}

void check_logits(const Tensor& logits, const char* text) {
  const NoGrad no_grad;
  const Tensor values = logits.detach();
  const std::vector<double> range = stack({values.min(), values.max()}).to_vector<double>();
  check_logits_range(range[0], range[1], values.numel() > 1, text);
}

void check_weights(Decoder& decoder) {
  const NoGrad no_grad;
  for (const nn::NamedModule& part : decoder.named_modules()) {
    const auto name = [&](const std::string& last) { return part.name.empty() ? last : part.name + "." + last; };
    const auto* layer = dynamic_cast<const Projection*>(part.module);
    if (layer != nullptr) check_tensor(name("weight"), layer->blocks());
    for (const nn::NamedTensor& own : part.module->named_parameters(false)) {
      if (layer != nullptr && own.name == "weight") continue;
      check_tensor(name(own.name), QuantizedTensor::unquantized(own.tensor.detach().to(kCPU, f32)));
    }
  }
}

}  // namespace etna::models
