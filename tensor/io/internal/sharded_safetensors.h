#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/io/internal/safetensors_file.h>

/// A Hugging Face model in several safetensors files, with an index that maps tensors to files.
namespace etna::io {

/// Tensor names → file names, from a model.safetensors.index.json.
using ShardIndex = std::map<std::string, std::string, std::less<>>;

/// Accepts only file names, no paths, so that an index cannot lead out of its folder.
/// @throws FormatError with text that fits after "FILE: "
ShardIndex parse_shard_index(std::string_view json);

/// All tensors of a model in one or several files. Each file is mapped once. A copy is another handle to the same
/// mappings.
class ShardedSafetensors {
 public:
  /// @param path an index (.json), a single safetensors file, or a folder with a model.safetensors.index.json or a
  /// model.safetensors in it
  /// @throws FormatError for unreadable, damaged or missing files, and for a tensor that is not in the file that the
  /// index names
  explicit ShardedSafetensors(const FilePath& path);

  /// In alphabetical order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const std::vector<SafetensorsFile>& files() const { return files_; }

  /// dtype and shape. Here and below: @throws FormatError naming the index if no tensor has this name
  const safetensors::Entry& entry(std::string_view name) const;
  /// A view of a tensor's bytes, which may outlive this object.
  MappedBytes bytes(std::string_view name) const;
  Tensor load(std::string_view name, Device device = {}) const;

 private:
  struct Place {
    std::size_t file;
    const safetensors::Entry* entry;
  };
  const Place& place(std::string_view name) const;

  FilePath path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace etna::io

namespace etna {

/// All tensors of a model in one or several files; `path` as ShardedSafetensors. @throws FormatError
std::map<std::string, Tensor> load_sharded_safetensors(const FilePath& path, Device device = {});

}  // namespace etna
