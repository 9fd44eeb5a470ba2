#include <etna/tensor/io/internal/llama2c.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/io/internal/quoted_name.h>

static_assert(std::endian::native == std::endian::little, "numbers of the file are read without conversion");

namespace etna::io {
namespace {

[[noreturn]] void llama2c_refuse(const std::string& what) { throw FormatError(what); }

constexpr std::size_t kHeaderBytes = 7 * sizeof(std::int32_t);

Llama2cConfig read_config(std::span<const std::byte> file) {
  std::array<std::int32_t, 7> numbers{};
  std::memcpy(numbers.data(), file.data(), kHeaderBytes);
  constexpr std::int32_t kVersioned = 0x616b3432;  // "ak42" of the later formats
  if (numbers[0] == kVersioned)
    llama2c_refuse("is in one of llama2.c's versioned formats; export it with --version 0 for the legacy format");
  constexpr std::array<const char*, 7> kNames = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                                 "n_kv_heads", "vocab_size", "seq_len"};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    // A negative vocabulary size means that the output matrix is separate from the embeddings.
    const bool negative = numbers[i] < 0 && i != 5;
    if (negative || numbers[i] == 0 || numbers[i] == INT32_MIN) {
      llama2c_refuse(
          fmt::format("has {} as {}, so it is not a llama2.c checkpoint, or a damaged one", numbers[i], kNames[i]));
    }
  }
  const Llama2cConfig config{numbers[0], numbers[1],    numbers[2],
                             numbers[3], numbers[4],    std::abs(std::int64_t{numbers[5]}),
                             numbers[6], numbers[5] > 0};
  if (config.width % config.heads != 0 || config.head_width() % 2 != 0) {
    llama2c_refuse(fmt::format("has {} heads for a width of {}; each head must have the same, even width", config.heads,
                               config.width));
  }
  if (config.heads % config.kv_heads != 0)
    llama2c_refuse(
        fmt::format("has {} heads for {} key/value heads; wanted a multiple", config.heads, config.kv_heads));
  return config;
}

/// Assigns consecutive positions to tensors, never beyond the end of the file.
class Layout {
 public:
  Layout(std::size_t file_bytes, Llama2cHeader& header)
      : left_((file_bytes - kHeaderBytes) / sizeof(float)), header_(header) {}

  /// One tensor for each layer, in file order: all layers' wq, then all layers' wk.
  void each_layer(const char* name, Shape shape) {
    const std::int64_t each = floats(shape);
    if (each > 0 && header_.config.layers > left_ / each) cut_short(name);
    for (std::int64_t layer = 0; layer < header_.config.layers; ++layer)
      add(fmt::format("layers.{}.{}.weight", layer, name), shape);
  }
  void add(const std::string& name, Shape shape) {
    header_.tensors.push_back({name, shape, kHeaderBytes + static_cast<std::size_t>(at_) * sizeof(float)});
    skip(name.c_str(), shape);
  }
  void skip(const char* name, Shape shape) {
    const std::int64_t count = floats(shape);
    if (count > left_) cut_short(name);
    at_ += count;
    left_ -= count;
  }
  std::int64_t left() const { return left_; }

 private:
  static std::int64_t floats(const Shape& shape) {
    std::int64_t product = 1;
    for (const std::int64_t size : shape) {
      if (__builtin_mul_overflow(product, size, &product)) return INT64_MAX;
    }
    return product;
  }
  [[noreturn]] void cut_short(const char* name) const {
    llama2c_refuse(fmt::format(
        "ends within {}: only {} numbers are left; it is not a llama2.c checkpoint, or cut short", name, left_));
  }

  std::int64_t at_ = 0, left_;
  Llama2cHeader& header_;
};

}  // namespace

Llama2cHeader parse_llama2c(std::span<const std::byte> file) {
  if (file.size() < kHeaderBytes)
    llama2c_refuse(fmt::format("is {} bytes long, too short for a llama2.c checkpoint", file.size()));
  Llama2cHeader header;
  header.config = read_config(file);
  const Llama2cConfig& c = header.config;
  if ((file.size() - kHeaderBytes) % sizeof(float) != 0)
    llama2c_refuse("does not end with a whole f32; it is cut short");
  Layout layout(file.size(), header);
  layout.add("tok_embeddings.weight", {c.vocabulary, c.width});
  layout.each_layer("attention_norm", {c.width});
  layout.each_layer("attention.wq", {c.width, c.width});
  layout.each_layer("attention.wk", {c.kv_width(), c.width});
  layout.each_layer("attention.wv", {c.kv_width(), c.width});
  layout.each_layer("attention.wo", {c.width, c.width});
  layout.each_layer("ffn_norm", {c.width});
  layout.each_layer("feed_forward.w1", {c.feed_forward, c.width});
  layout.each_layer("feed_forward.w2", {c.width, c.feed_forward});
  layout.each_layer("feed_forward.w3", {c.feed_forward, c.width});
  layout.add("norm.weight", {c.width});
  layout.skip("the table of cosines", {c.context, c.head_width() / 2});
  layout.skip("the table of sines", {c.context, c.head_width() / 2});
  if (!c.tied) layout.add("output.weight", {c.vocabulary, c.width});
  if (layout.left() != 0)
    llama2c_refuse(fmt::format("has {} numbers after its last tensor; it is damaged", layout.left()));
  return header;
}

Llama2cCheckpoint::Llama2cCheckpoint(const FilePath& path)
    : path_(path), file_(std::make_shared<MappedFile>(path, "a llama2.c checkpoint")) {
  try {
    header_ = parse_llama2c({file_->bytes(), file_->size()});
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

const Llama2cTensor& Llama2cCheckpoint::tensor(std::string_view name) const {
  const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                  [&](const Llama2cTensor& tensor) { return tensor.name == name; });
  if (found != header_.tensors.end()) return *found;
  throw FormatError(fmt::format("{}: has no tensor {}", path_.string(), quoted_name(name)));
}

MappedBytes Llama2cCheckpoint::bytes(std::string_view name) const {
  const Llama2cTensor& found = tensor(name);
  return {file_, found.begin, byte_size(found.shape, sizeof(float), "llama2c")};
}

Tensor Llama2cCheckpoint::load(std::string_view name, Device device) const {
  return from_bytes(bytes(name).data(), tensor(name).shape, f32, device);
}

}  // namespace etna::io
