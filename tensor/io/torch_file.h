#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/tensor.h>

/// PyTorch files (.pt, .pth: torch.save since 1.6), read without executing anything: the pickle in them is interpreted
/// by a machine that knows tensors, parameters, dictionaries, lists, tuples, strings, numbers, bool and None, and
/// rejects every other name. Needs libzip.
namespace etna {

/// A value saved by torch.save().
struct TorchValue {
  enum class Kind { none, boolean, integer, number, string, tensor, list, tuple, dict };
  struct Entry;

  Kind kind = Kind::none;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  ///< also the nearest double of an integer beyond 64 bits, such as a large seed
  std::string string;
  Tensor tensor;
  std::vector<TorchValue> items;  ///< of a list or tuple (torch.Size too)
  std::vector<Entry> entries;     ///< of a dict or OrderedDict, in order

  /// The value of a key. @throws FormatError if this is not a dict, or listing its keys if the key is missing
  const TorchValue& at(const std::string& key) const;
  /// All nested tensors, named by keys and positions joined by dots: {"model": {"0.weight": w}} gives "model.0.weight".
  /// Other values are skipped. @throws FormatError if two tensors get the same name
  std::map<std::string, Tensor> tensors() const;
};

struct TorchValue::Entry {
  TorchValue key, value;
};

/// Reads a whole file. Tensors that shared a storage share it again; views keep their strides.
/// @throws FormatError naming the file and the fault, for an unreadable or damaged file, one of PyTorch before 1.6 or
/// torch.jit, and one that contains anything but the above
TorchValue read_torch(const FilePath& path, Device device = {});

/// read_torch(path).tensors(): the way to a state_dict, `model.load_state_dict(load_torch("model.pt"))`.
std::map<std::string, Tensor> load_torch(const FilePath& path, Device device = {});

}  // namespace etna
