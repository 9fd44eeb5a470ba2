#include <etna/tensor/io/torch_file.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/io/internal/pickle.h>
#include <etna/tensor/io/internal/zip.h>

namespace etna {
namespace {

/// Files of PyTorch before 1.6 are a pickle or a tar archive; this recognizes them by their first bytes, for a better
/// error.
void refuse_legacy(const FilePath& path) {
  const io::MappedFile file(path, "a PyTorch file");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes()), file.size());
  if (!text.starts_with("PK")) {
    const bool pickle = text.starts_with("\x80\x02\x8a\x0a");
    throw FormatError(fmt::format("{}: {}", path.string(),
                                  pickle ? "has the format before PyTorch 1.6; load it there and torch.save() it again"
                                         : "is not a PyTorch file: it is not a ZIP archive"));
  }
}

/// The entries of one file and the storages read so far.
class TorchFile {
 public:
  TorchFile(const FilePath& path, Device device) : archive_(path, "a PyTorch file"), device_(device) {
    std::size_t pickles = 0;
    for (std::size_t i = 0; i < archive_.entries().size(); ++i) {
      const std::string& name = archive_.entries()[i].name;
      if (!entries_.emplace(name, i).second) throw FormatError(fmt::format("entry '{}' occurs twice", name));
      constexpr std::string_view kPickle = "/data.pkl";
      if (name.ends_with(kPickle) && std::count(name.begin(), name.end(), '/') == 1) {
        folder_ = name.substr(0, name.size() - kPickle.size() + 1);
        ++pickles;
      }
    }
    if (pickles != 1) throw FormatError("is not a PyTorch file: wanted exactly one entry data.pkl");
    if (entries_.contains(folder_ + "constants.pkl"))
      throw FormatError("is a TorchScript program; save its state_dict() with torch.save() instead");
    if (const auto order = entries_.find(folder_ + "byteorder"); order != entries_.end()) {
      const std::vector<std::byte> text = archive_.read(order->second);
      if (std::string_view(reinterpret_cast<const char*>(text.data()), text.size()) != "little")
        throw FormatError("was written by a big-endian machine, which is not supported");
    }
  }

  TorchValue read() {
    const std::vector<std::byte> bytes = archive_.read(entries_.at(folder_ + "data.pkl"));
    const auto load = [this](DType dtype, const std::string& key, std::int64_t count) {
      return storage(dtype, key, count);
    };
    return pickle::Machine(bytes, load).run();
  }

 private:
  Tensor storage(DType dtype, const std::string& key, std::int64_t count) {
    if (const auto known = storages_.find(key); known != storages_.end()) {
      if (known->second.dtype() != dtype || known->second.numel() != count)
        throw FormatError(fmt::format("storage '{}' has two dtypes or sizes", key));
      return known->second;
    }
    const auto entry = entries_.find(folder_ + "data/" + key);
    if (entry == entries_.end()) throw FormatError(fmt::format("storage '{}' is not in the archive", key));
    const std::uint64_t size = archive_.entries()[entry->second].size;
    std::int64_t wanted = 0;
    if (count < 0 || __builtin_mul_overflow(count, static_cast<std::int64_t>(item_size(dtype)), &wanted) ||
        static_cast<std::uint64_t>(wanted) != size) {
      throw FormatError(fmt::format("storage '{}' has {} bytes; wanted {} of {}", key, size, count, name(dtype)));
    }
    std::vector<std::byte> bytes = archive_.read(entry->second);
    // The file may contain any byte; in memory, a bool must be 0 or 1.
    if (dtype == boolean) {
      for (std::byte& b : bytes) b = b == std::byte{0} ? b : std::byte{1};
    }
    return storages_.emplace(key, from_bytes(bytes.data(), {count}, dtype, device_)).first->second;
  }

  io::ZipReader archive_;
  Device device_;
  std::string folder_;  ///< with a trailing slash
  std::map<std::string, std::size_t> entries_;
  std::map<std::string, Tensor> storages_;
};

std::string key_of(const TorchValue& key) {
  if (key.kind == TorchValue::Kind::string) return key.string;
  if (key.kind == TorchValue::Kind::integer) return std::to_string(key.integer);
  return "?";
}

void collect(const TorchValue& value, const std::string& prefix, std::map<std::string, Tensor>& into) {
  const auto below = [&](const std::string& name) { return prefix.empty() ? name : prefix + "." + name; };
  if (value.kind == TorchValue::Kind::tensor && !into.emplace(prefix, value.tensor).second)
    throw FormatError(fmt::format("two tensors have the name '{}'", prefix));
  for (std::size_t i = 0; i < value.items.size(); ++i) collect(value.items[i], below(std::to_string(i)), into);
  for (const auto& [key, item] : value.entries) collect(item, below(key_of(key)), into);
}

}  // namespace

const TorchValue& TorchValue::at(const std::string& key) const {
  if (kind != Kind::dict)
    throw FormatError(fmt::format("'{}' was requested from a value that is not a dictionary", key));
  std::string keys;
  // The last of equal keys wins, as in Python.
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->key.kind == Kind::string && entry->key.string == key) return entry->value;
    keys = key_of(entry->key) + " " + keys;
  }
  throw FormatError(fmt::format("the dictionary has no key '{}'; its keys are {}", key, keys));
}

std::map<std::string, Tensor> TorchValue::tensors() const {
  std::map<std::string, Tensor> all;
  collect(*this, "", all);
  return all;
}

TorchValue read_torch(const FilePath& path, Device device) {
  refuse_legacy(path);
  try {
    return TorchFile(path, device).read();
  } catch (const FormatError& error) {
    const std::string text = error.what();
    throw FormatError(text.starts_with(path.string()) ? text : fmt::format("{}: {}", path.string(), text));
  }
}

std::map<std::string, Tensor> load_torch(const FilePath& path, Device device) {
  const TorchValue value = read_torch(path, device);
  try {
    return value.tensors();
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace etna
