#include <etna/tensor/io/gguf.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>
#include <etna/tensor/io/internal/gguf_header.h>
#include <etna/tensor/io/internal/quoted_name.h>
#include <etna/tensor/op.h>

namespace etna::io {
namespace {

constexpr std::size_t kLongestName = 63;  // llama.cpp stores names in 64 bytes

template <typename T>
void append(std::string& bytes, T number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void gguf_writer_append_string(std::string& bytes, std::string_view text) {
  append(bytes, static_cast<std::uint64_t>(text.size()));
  bytes.append(text);
}

/// The unquantized format of a dtype, or null.
const quant::BlockFormat* format_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return quant::find_format("F64");
    case DType::f32:
      return quant::find_format("F32");
    case DType::f16:
      return quant::find_format("F16");
    case DType::bf16:
      return quant::find_format("BF16");
    case DType::i64:
      return quant::find_format("I64");
    case DType::i32:
      return quant::find_format("I32");
    case DType::i8:
      return quant::find_format("I8");
    case DType::u8:
    case DType::boolean:
      break;
  }
  return nullptr;
}

}  // namespace

struct GgufWriter::Declared {
  std::string name;
  const quant::BlockFormat* format = nullptr;
  Shape shape;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
};

struct GgufWriter::State {
  State(const FilePath& path, std::uint32_t alignment) : path(path), alignment(alignment) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw FormatError(fmt::format("{}: {}", path.string(), what));
  }

  /// Moves past a complete tensor and writes its padding.
  void close_complete() {
    while (next < tensors.size() && written == tensors[next].bytes) {
      const std::string padding(static_cast<std::size_t>((alignment - written % alignment) % alignment), '\0');
      file->write(padding);
      ++next;
      written = 0;
    }
  }

  FilePath path;
  std::uint64_t alignment;
  std::optional<AtomicFile> file;  ///< opened at the start, so that a wrong path is reported before the work
  std::string metadata;
  std::uint64_t entries = 0;
  std::set<std::string, std::less<>> keys, names;
  std::vector<Declared> tensors;
  bool begun = false, finished = false;
  std::size_t next = 0;       ///< index of the tensor being written
  std::uint64_t written = 0;  ///< bytes of it that are written
};

GgufWriter::GgufWriter(const FilePath& path, std::uint32_t alignment)
    : state_(std::make_unique<State>(path, alignment)) {
  constexpr std::uint32_t kLargest = 1u << 20;
  if (!std::has_single_bit(alignment) || alignment > kLargest)
    state_->refuse(fmt::format("the alignment is {}; wanted a power of two up to {}", alignment, kLargest));
  state_->file.emplace(path);
  if (alignment != kGgufAlignment) {
    gguf_writer_append_string(state_->metadata, "general.alignment");
    append(state_->metadata, static_cast<std::uint32_t>(GgufType::u32));
    append(state_->metadata, alignment);
    ++state_->entries;
  }
}

GgufWriter::~GgufWriter() = default;

void GgufWriter::set(std::string_view key, const GgufValue& value) {
  State& s = *state_;
  if (s.begun) s.refuse(fmt::format("metadata {} comes after the first tensor was written", quoted_name(key)));
  if (key.empty() || key.size() > kMaxGgufName)
    s.refuse(fmt::format("{} cannot be a key: wanted 1 to {} bytes", quoted_name(key), kMaxGgufName));
  if (key == "general.alignment") s.refuse("pass the alignment to the writer's constructor, not as metadata");
  if (!s.keys.emplace(key).second) s.refuse(fmt::format("metadata {} is set twice", quoted_name(key)));
  gguf_writer_append_string(s.metadata, key);
  append(s.metadata, static_cast<std::uint32_t>(value.type()));
  s.metadata += value.file_bytes();
  ++s.entries;
}

void GgufWriter::add(std::string_view name, const quant::BlockFormat& format, const Shape& shape) {
  State& s = *state_;
  const std::string what = "tensor " + quoted_name(name);
  if (s.begun) s.refuse(fmt::format("{} is declared after the first tensor was written", what));
  if (name.empty() || name.size() > kLongestName) {
    s.refuse(fmt::format("{} has a name of {} bytes; wanted 1 to {}, the most that llama.cpp reads", what, name.size(),
                         kLongestName));
  }
  if (!gguf_type_of(format))
    s.refuse(fmt::format("{} has format {}, which has no number in GGUF; choose another one, such as Q8_0", what,
                         format.name));
  if (shape.rank() < 1 || shape.rank() > static_cast<int>(kMaxGgufDims)) {
    s.refuse(fmt::format("{} has shape {}; wanted 1 to {} dimensions; reshape it", what, str(shape), kMaxGgufDims));
  }
  if (!s.names.emplace(name).second) s.refuse(fmt::format("{} is declared twice", what));
  Declared tensor{std::string(name), &format, shape, 0, 0};
  try {
    tensor.elements = numel(shape, "GgufWriter::add");
    if (shape.back() % format.elements != 0) {
      s.refuse(fmt::format("{} has rows of {} elements, which are not whole blocks of {} ({} elements)", what,
                           shape.back(), format.name, format.elements));
    }
    tensor.bytes = quant::storage_bytes(format, tensor.elements);
  } catch (const ShapeError& error) {
    s.refuse(fmt::format("{}: {}", what, error.what()));
  }
  s.tensors.push_back(std::move(tensor));
}

/// Writes the header.
void GgufWriter::begin() {
  State& s = *state_;
  if (s.begun) return;
  std::string header = "GGUF";
  append(header, std::uint32_t{3});
  append(header, static_cast<std::uint64_t>(s.tensors.size()));
  append(header, s.entries);
  header += s.metadata;
  std::uint64_t offset = 0;
  for (const Declared& tensor : s.tensors) {
    gguf_writer_append_string(header, tensor.name);
    append(header, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int d = tensor.shape.rank(); d-- > 0;) append(header, static_cast<std::uint64_t>(tensor.shape[d]));
    append(header, *gguf_type_of(*tensor.format));
    append(header, offset);
    const std::uint64_t padded = (tensor.bytes + s.alignment - 1) & ~(s.alignment - 1);
    if (__builtin_add_overflow(offset, padded, &offset) || offset > INT64_MAX)
      s.refuse("its tensors take more bytes than a file can have");
  }
  header.resize((header.size() + s.alignment - 1) & ~(s.alignment - 1), '\0');
  s.begun = true;
  s.file->write(header);
  s.close_complete();
}

GgufWriter::Declared& GgufWriter::current(std::string_view name) {
  State& s = *state_;
  if (s.finished) s.refuse("is finished; nothing more can be written");
  // Tensors without bytes are complete from the start.
  std::size_t next = s.next;
  while (next < s.tensors.size() && s.tensors[next].bytes == 0) ++next;
  if (next == s.tensors.size() || s.tensors[next].name != name) {
    const std::string wanted = next < s.tensors.size() ? fmt::format("{} comes next", quoted_name(s.tensors[next].name))
                                                       : "all declared ones are complete";
    s.refuse(fmt::format("tensor {} cannot be written now: {}", quoted_name(name), wanted));
  }
  begin();
  return s.tensors[next];
}

void GgufWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  State& s = *state_;
  const bool none = std::any_of(s.tensors.begin(), s.tensors.end(),
                                [&](const Declared& tensor) { return tensor.bytes == 0 && tensor.name == name; });
  if (none && bytes.empty()) return;
  const Declared& tensor = current(name);
  if (bytes.size() > tensor.bytes - s.written) {
    s.refuse(
        fmt::format("tensor {} takes {} bytes; got {}", quoted_name(name), tensor.bytes, s.written + bytes.size()));
  }
  s.file->write(bytes.data(), bytes.size());
  s.written += bytes.size();
  s.close_complete();
}

void GgufWriter::write(std::string_view name, const Tensor& tensor, std::span<const float> importance) {
  State& s = *state_;
  if (tensor.numel() == 0) return write(name, std::span<const std::byte>());
  const Declared declared = current(name);
  const std::string what = "tensor " + quoted_name(name);
  if (!(tensor.shape() == declared.shape))
    s.refuse(fmt::format("{} was declared as {}, but has shape {}", what, str(declared.shape), str(tensor.shape())));
  if (s.written != 0) s.refuse(fmt::format("{} has been written partly; write the rest as bytes", what));
  GradMode off(false);
  Tensor host = tensor.contiguous().to(kCPU);
  if (format_of(host.dtype()) == declared.format)
    return write(name, {static_cast<const std::byte*>(host.raw_data()), static_cast<std::size_t>(declared.bytes)});
  if (!declared.format->can_quantize() || !is_floating(host.dtype())) {
    s.refuse(
        fmt::format("{} has dtype {}, which {} cannot hold", what, etna::name(host.dtype()), declared.format->name));
  }
  host = host.to(f32);
  const float* values = host.data<float>();
  // Several rows at a time, unless the format has one scale for the whole tensor.
  const std::int64_t row = declared.shape.back(), rows = declared.elements / row;
  const std::int64_t at_once =
      declared.format->tail != 0 ? rows : std::max<std::int64_t>(1, (std::int64_t{1} << 20) / row);
  std::vector<std::byte> bytes;
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first) * row;
    bytes.resize(quant::storage_bytes(*declared.format, count));
    try {
      quant::quantize(*declared.format, values + first * row, bytes, count, importance);
    } catch (const Error& error) {
      s.refuse(fmt::format("{} from row {} on: {}", what, first, error.what()));
    }
    write(name, bytes);
  }
}

void GgufWriter::finish() {
  State& s = *state_;
  if (s.finished) s.refuse("is already finished");
  begin();
  if (s.next < s.tensors.size()) {
    const Declared& tensor = s.tensors[s.next];
    s.refuse(fmt::format("tensor {} has {} of its {} bytes; write all declared tensors before finish()",
                         quoted_name(tensor.name), s.written, tensor.bytes));
  }
  s.file->finish();
  s.finished = true;
}

}  // namespace etna::io

namespace etna {

void save_gguf(const FilePath& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
               const GgufOptions& options) {
  io::GgufWriter file(path, options.alignment);
  for (const auto& [key, value] : options.metadata) file.set(key, value);
  for (const auto& [name, tensor] : tensors) {
    const quant::BlockFormat* format = io::format_of(tensor.dtype());
    if (format == nullptr) {
      throw FormatError(fmt::format("{}: tensor {} has dtype {}, which GGUF cannot hold; convert it to i32 or i8 first",
                                    path.string(), io::quoted_name(name), etna::name(tensor.dtype())));
    }
    file.add(name, *format, tensor.shape());
  }
  for (const auto& [name, tensor] : tensors) file.write(name, tensor);
  file.finish();
}

}  // namespace etna
