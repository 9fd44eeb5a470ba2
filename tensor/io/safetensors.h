#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <etna/tensor/tensor.h>

/// The safetensors file format: a JSON header that names tensors, then their bytes. Little-endian, row-major, nothing
/// executable.
namespace etna {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::map<std::string, std::string>;

/// Writes a file that appears whole or not at all: it is written beside `path`, flushed to disk, then renamed over it.
/// Tensors may be on any device and any views.
/// @throws FormatError for a name given twice, and where the file cannot be written, which leaves what was at `path` as
/// it was
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const Metadata& metadata = {});
void save_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                      const Metadata& metadata = {});

/// All tensors of a file. Nothing is believed before it is checked: no size in the header makes anything be read out of
/// bounds.
/// @throws FormatError for a file that cannot be read or is damaged, naming the file and what is wrong
std::map<std::string, Tensor> load_safetensors(const std::filesystem::path& path, Device device = {});
/// What a file says of itself; reads the header only.
Metadata load_safetensors_metadata(const std::filesystem::path& path);

}  // namespace etna
