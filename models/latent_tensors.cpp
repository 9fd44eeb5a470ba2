#include <etna/models/internal/latent_tensors.h>

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// A half's values. @param wanted its shape
Tensor half_values(const std::string& file, const std::string& name, const StoredTensor& stored, const Shape& wanted) {
  if (stored.format == nullptr) throw FormatError(fmt::format("{}: tensor '{}' has an unknown format", file, name));
  if (stored.shape != wanted) {
    throw FormatError(
        fmt::format("{}: tensor '{}' is {}; the model's sizes require {}", file, name, str(stored.shape), str(wanted)));
  }
  Tensor values = empty(stored.shape);
  quant::dequantize(*stored.format, stored.span(), values.mutable_data<float>(), values.numel());
  return values;
}

}  // namespace

StoredWeights::Find with_latent_halves(std::string file, StoredWeights::Find find, const DecoderConfig& config) {
  if (config.latent.size == 0) return find;
  return [file = std::move(file), find = std::move(find), &config](const std::string& name) {
    constexpr std::string_view kWhole = "kv_b.weight";
    std::optional<StoredTensor> whole = find(name);
    if (whole || !name.ends_with(kWhole)) return whole;
    const std::string start = name.substr(0, name.size() - kWhole.size());
    const std::string of_keys = start + "k_b.weight", of_values = start + "v_b.weight";
    const std::optional<StoredTensor> keys = find(of_keys), values = find(of_values);
    if (!keys || !values) return whole;
    const std::int64_t heads = config.heads, still = config.head_size - config.rope.size, size = config.latent.size;
    const Tensor k = half_values(file, of_keys, *keys, {heads, size, still}).transpose(1, 2);
    const Tensor v = half_values(file, of_values, *values, {heads, config.latent.value_size, size});
    const Tensor both = cat({k, v}, 1).reshape({-1, size});
    // Blocks are along other rows than those of the whole, which is decoded to 16 bits.
    const auto plain = [&](const char* format) {
      return keys->format == &quant::format_named(format) && values->format == keys->format;
    };
    const DType dtype = plain("F32") ? f32 : plain("BF16") ? bf16 : f16;
    const char* format = dtype == f32 ? "F32" : dtype == bf16 ? "BF16" : "F16";
    const Tensor rows = both.to(dtype).contiguous();
    return std::optional<StoredTensor>(StoredTensor{&quant::format_named(format), rows.shape(), {}, rows});
  };
}

}  // namespace etna::models
