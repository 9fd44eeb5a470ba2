#include <etna/models/internal/expert_tensors.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

constexpr std::string_view kGateUp = ".experts.gate_up_proj", kDown = ".experts.down_proj", kBias = "_bias",
                           kBlocks = "_blocks", kScales = "_scales";

/// Elements and bytes of a block of MXFP4 in a file of Hugging Face, and with the scale.
constexpr std::int64_t kPackedBlock = 32, kPackedBytes = kPackedBlock / 2;

bool is_gate_up(std::string_view name) { return name.find(kGateUp) != std::string_view::npos; }

/// Rows of gates, then those of up projections, where these take turns. @param x [experts, rows, ...]
Tensor gates_first(const Tensor& x) {
  Shape turns = x.shape();
  turns[1] /= 2;
  turns.insert(2, 2);
  return x.reshape(turns).transpose(1, 2).reshape(x.shape()).contiguous();
}

class ExpertReader {
 public:
  ExpertReader(std::string file, StoredWeights::Find find, const DecoderConfig& config)
      : file_(std::move(file)),
        find_(std::move(find)),
        config_(config),
        interleaved_(architecture_of(config).experts.interleaved) {}

  std::optional<StoredTensor> find(const std::string& name) {
    if (!is_gate_up(name) && name.find(kDown) == std::string::npos) return find_(name);
    // The experts of a layer are asked for one after the other.
    if (last_ && last_->first == name) return last_->second;
    std::optional<StoredTensor> found = made(name);
    if (found) last_ = {name, *found};
    return found;
  }

 private:
  std::optional<StoredTensor> made(const std::string& name) const {
    const bool turns = interleaved_ && is_gate_up(name);
    if (name.ends_with(kBias)) {
      const std::optional<StoredTensor> bias = find_(name);
      if (!bias) return std::nullopt;
      const Tensor values = values_of(name, *bias, 2);
      return StoredTensor{bias->format, {values.numel()}, {}, (turns ? gates_first(values) : values).reshape({-1})};
    }
    if (const auto blocks = find_(name + std::string(kBlocks))) return packed(name, *blocks, turns);
    const std::optional<StoredTensor> stored = find_(name);
    if (!stored) return std::nullopt;
    const Tensor values = values_of(name, *stored, 3);
    const Tensor rows = by_row(name) ? values : values.transpose(1, 2).contiguous();
    return StoredTensor{stored->format, rows.shape(), {}, turns ? gates_first(rows) : rows};
  }

  /// Whether matrices lie in the file as [out, in]. Where one is square, that of the layer's other tensor tells.
  bool by_row(const std::string& name) const {
    for (const bool gate_up : {is_gate_up(name), !is_gate_up(name)}) {
      const std::size_t end = name.rfind(is_gate_up(name) ? kGateUp : kDown);
      const auto stored = find_(name.substr(0, end) + std::string(gate_up ? kGateUp : kDown));
      if (!stored || stored->shape.rank() != 3 || stored->shape[1] == stored->shape[2]) continue;
      return stored->shape[2] == (gate_up ? config_.expert_width() : config_.experts.feed_forward);
    }
    return false;
  }

  /// A tensor of the file that is not in blocks.
  Tensor values_of(const std::string& name, const StoredTensor& stored, int rank) const {
    const std::optional<DType> dtype = dtype_of(stored.format);
    if (!dtype || stored.shape.rank() != rank || (interleaved_ && is_gate_up(name) && stored.shape[rank - 1] % 2 != 0))
      refuse(name, stored, fmt::format("wanted {} dimensions of F32, F16 or BF16", rank));
    return from_bytes(stored.span().data(), stored.shape, *dtype, kCPU);
  }

  static std::optional<DType> dtype_of(const quant::BlockFormat* format) {
    for (const DType dtype : {f32, f16, bf16})
      if (format == &quant::format_named(dtype == f32 ? "F32" : dtype == f16 ? "F16" : "BF16")) return dtype;
    return std::nullopt;
  }

  [[noreturn]] void refuse(const std::string& name, const StoredTensor& stored, const std::string& wanted) const {
    throw FormatError(fmt::format("{}: tensor '{}' is {}; {}", file_, name, str(stored.shape), wanted));
  }

  /// Blocks of MXFP4 as this library has them: the scale, then 16 bytes, each with elements j and j + 16 instead of 2 j
  /// and 2 j + 1. @param blocks [experts, rows, columns / 32, 16]
  std::optional<StoredTensor> packed(const std::string& name, const StoredTensor& blocks, bool turns) const {
    const std::string of_scales = name + std::string(kScales);
    const std::optional<StoredTensor> scales = find_(of_scales);
    if (!scales) throw FormatError(fmt::format("{}: tensor '{}' is missing", file_, of_scales));
    if (blocks.shape.rank() != 4 || blocks.shape[3] != kPackedBytes || (turns && blocks.shape[1] % 2 != 0))
      refuse(name + std::string(kBlocks), blocks, "wanted [experts, rows, columns / 32, 16]");
    const Shape by_block{blocks.shape[0], blocks.shape[1], blocks.shape[2]};
    const auto count = static_cast<std::size_t>(numel(by_block));
    if (scales->shape != by_block || scales->span().size() != count || blocks.span().size() != count * kPackedBytes)
      refuse(of_scales, *scales, fmt::format("wanted {} bytes", str(by_block)));
    Tensor bytes = empty({numel(by_block), kPackedBytes + 1}, {u8, kCPU});
    auto* to = bytes.mutable_data<std::uint8_t>();
    const auto* from = reinterpret_cast<const std::uint8_t*>(blocks.span().data());
    const auto* scale = reinterpret_cast<const std::uint8_t*>(scales->span().data());
    const auto element = [&](std::int64_t i) { return from[i / 2] >> (i % 2 * 4) & 15; };
    for (std::size_t b = 0; b < count; ++b, from += kPackedBytes) {
      *to++ = scale[b];
      for (std::int64_t j = 0; j < kPackedBytes; ++j)
        *to++ = static_cast<std::uint8_t>(element(j) | element(j + kPackedBytes) << 4);
    }
    Tensor rows = bytes.reshape({by_block[0], by_block[1], by_block[2] * (kPackedBytes + 1)});
    if (turns) rows = gates_first(rows);
    return StoredTensor{
        &quant::format_named("MXFP4"), {by_block[0], by_block[1], by_block[2] * kPackedBlock}, {}, rows};
  }

  const std::string file_;
  const StoredWeights::Find find_;
  const DecoderConfig& config_;
  const bool interleaved_;
  std::optional<std::pair<std::string, StoredTensor>> last_;
};

}  // namespace

StoredWeights::Find experts_by_row(std::string file, StoredWeights::Find find, const DecoderConfig& config) {
  const auto reader = std::make_shared<ExpertReader>(std::move(file), std::move(find), config);
  return [reader](const std::string& name) { return reader->find(name); };
}

bool is_part_of_experts(const std::string& name) {
  const bool experts = is_gate_up(name) || name.find(kDown) != std::string::npos;
  return experts && (name.ends_with(kBlocks) || name.ends_with(kScales));
}

}  // namespace etna::models
