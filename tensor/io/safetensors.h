#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/tensor.h>

/// The safetensors file format: a JSON header that names the tensors, followed by their bytes. Little-endian,
/// row-major, nothing executable.
namespace etna {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// Writes the file atomically: writes a temporary file next to `path`, flushes it to disk, then renames it. Tensors may
/// be views, on any device.
/// @throws FormatError for a duplicate name, or if the file cannot be written; an existing file is then unchanged
void save_safetensors(const FilePath& path, const NamedTensors& tensors, const Metadata& metadata = {});
void save_safetensors(const FilePath& path, const std::map<std::string, Tensor>& tensors,
                      const Metadata& metadata = {});

/// Loads all tensors of a file. Every header field is checked before use, so no size can cause an out-of-bounds read.
/// @throws FormatError for a file that cannot be read or is damaged, naming the file and the fault
std::map<std::string, Tensor> load_safetensors(const FilePath& path, Device device = {});
/// The file's metadata; only reads the header.
Metadata load_safetensors_metadata(const FilePath& path);

}  // namespace etna
