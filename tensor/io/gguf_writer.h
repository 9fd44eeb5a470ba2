#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/gguf_value.h>
#include <etna/tensor/quant/block_format.h>
#include <etna/tensor/tensor.h>

namespace etna::io {

/// Writes a GGUF file, version 3. First declare all metadata and all tensors, then write the tensors in that order,
/// each in any number of chunks, so a model may be larger than memory:
///
///     GgufWriter file("model.gguf");
///     file.set("general.architecture", "llama");
///     file.add("output.weight", quant::format_named("Q8_0"), {32000, 2048});
///     file.write("output.weight", weight);  // a Tensor, quantized on the way, or bytes
///     file.finish();
///
/// The file appears at `path` in finish(); without that call, an existing file is unchanged.
class GgufWriter {
 public:
  /// @param alignment of the tensors, a power of two
  /// Here and below: @throws FormatError naming the file, for invalid arguments, write errors and calls out of order
  explicit GgufWriter(const FilePath& path, std::uint32_t alignment = 32);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  /// Adds metadata. Each key may be set once; the writer sets "general.alignment" itself.
  void set(std::string_view key, const GgufValue& value);

  /// Declares a tensor. The name must have at most 63 bytes and the shape one to four dimensions, outermost first: the
  /// limits of llama.cpp. Rows must be whole blocks.
  void add(std::string_view name, const quant::BlockFormat& format, const Shape& shape);

  /// Writes bytes of the next tensor, or of the incomplete one.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Writes a whole tensor of the declared shape. Floats are quantized to the declared format; other dtypes must match
  /// it.
  /// @param importance as quantize(): one factor for each column
  void write(std::string_view name, const Tensor& tensor, std::span<const float> importance = {});

  /// Renames the file to `path`. @throws FormatError also if a tensor is incomplete, naming it
  void finish();

 private:
  struct Declared;
  struct State;
  Declared& current(std::string_view name);
  void begin();

  std::unique_ptr<State> state_;
};

}  // namespace etna::io

namespace etna {

struct GgufOptions {
  std::vector<std::pair<std::string, io::GgufValue>> metadata = {};
  std::uint32_t alignment = 32;
};

/// Writes tensors in the formats of their dtypes (f64, f32, f16, bf16, i64, i32, i8). They may be views, on any device.
/// @throws FormatError as GgufWriter, and for other dtypes
void save_gguf(const FilePath& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
               const GgufOptions& options = {});

}  // namespace etna
