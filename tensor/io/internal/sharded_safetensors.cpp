#include <etna/tensor/io/internal/sharded_safetensors.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/device/error.h>
#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/io/internal/quoted_name.h>

namespace etna::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void sharded_safetensors_refuse(const std::string& what) { throw FormatError(what); }

void check_file_name(const std::string& tensor, const std::string& name) {
  constexpr std::string_view kEnd = ".safetensors";
  const bool plain = name.size() <= 255 && name.size() > kEnd.size() && name.ends_with(kEnd) &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain) {
    sharded_safetensors_refuse(
        fmt::format("tensor {} is said to be in {}; wanted the name of a .safetensors file next to the index",
                    quoted_name(tensor), quoted_name(name)));
  }
}

/// Parses the index as a stream of events. Only "weight_map" is used; other fields may contain anything that is not
/// nested too deeply.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  ShardIndex take() {
    if (!seen_) sharded_safetensors_refuse("has no 'weight_map', so it is not an index of safetensors files");
    return std::move(index_);
  }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!fields_.insert(text).second)
        sharded_safetensors_refuse(fmt::format("field {} occurs twice", quoted_name(text)));
      in_map_ = text == "weight_map";
      seen_ = seen_ || in_map_;
    }
    name_ = text;
    return true;
  }
  bool start_object(std::size_t) override {
    if (in_map_ && depth_ >= 2) unexpected("an object");
    return deeper();
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    unexpected("a list");
    return deeper();
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || !in_map_) {
      unexpected("a string");
      return true;
    }
    check_file_name(name_, text);
    if (!index_.emplace(name_, text).second)
      sharded_safetensors_refuse(fmt::format("tensor {} occurs twice", quoted_name(name_)));
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a number"); }
  bool number_unsigned(number_unsigned_t) override { return unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number"); }
  bool binary(binary_t&) override { return unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    sharded_safetensors_refuse(fmt::format("is not valid JSON from byte {} on", position));
  }

 private:
  bool deeper() {
    constexpr int kDeepest = 32;
    if (++depth_ > kDeepest) sharded_safetensors_refuse(fmt::format("nests deeper than {} levels", kDeepest));
    return true;
  }
  /// Rejects a value in the place of an object or a file name; skips all others.
  bool unexpected(const char* what) const {
    if (depth_ == 0) sharded_safetensors_refuse(fmt::format("is {}; wanted a JSON object", what));
    if (depth_ == 1 && in_map_) sharded_safetensors_refuse(fmt::format("'weight_map' is {}; wanted an object", what));
    if (in_map_)
      sharded_safetensors_refuse(fmt::format("tensor {} has {} as its file; wanted a name", quoted_name(name_), what));
    return true;
  }

  ShardIndex index_;
  std::set<std::string> fields_;
  int depth_ = 0;
  bool in_map_ = false, seen_ = false;
  std::string name_;
};

/// The index or single file that a path refers to.
FilePath model_file(const FilePath& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    if (fs::exists(path / name, error)) return path / name;
  }
  throw FormatError(fmt::format("{}: has no model.safetensors.index.json and no model.safetensors in it; name the file",
                                path.string()));
}

ShardIndex read_index(const FilePath& path) {
  const MappedFile file(path, "an index of safetensors files");
  const auto refused = [&](const std::string& what) { return FormatError(fmt::format("{}: {}", path.string(), what)); };
  if (file.size() > safetensors::kMaxHeaderBytes)
    throw refused(fmt::format("has {} bytes, too many for an index of safetensors files", file.size()));
  try {
    return parse_shard_index({reinterpret_cast<const char*>(file.bytes()), file.size()});
  } catch (const FormatError& error) {
    throw refused(error.what());
  }
}

}  // namespace

ShardIndex parse_shard_index(std::string_view json) {
  if (json.empty()) sharded_safetensors_refuse("is empty, not an index of safetensors files");
  Reader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

ShardedSafetensors::ShardedSafetensors(const FilePath& path) : path_(model_file(path)) {
  if (fs::path(path_).extension() != ".json") {
    files_.emplace_back(path_);
    for (const safetensors::Entry& entry : files_[0].tensors()) tensors_.emplace(entry.name, Place{0, &entry});
    return;
  }
  const ShardIndex index = read_index(path_);
  std::map<std::string_view, std::size_t> numbers;
  for (const auto& [tensor, file] : index) {
    const auto [number, first] = numbers.emplace(file, files_.size());
    if (first) {
      const fs::path shard = fs::path(path_).parent_path() / file;
      std::error_code error;
      if (!fs::exists(shard, error)) {
        throw FormatError(fmt::format("{}: names {}, which is not next to it; download the file again", path_.string(),
                                      quoted_name(file)));
      }
      files_.emplace_back(shard);
    }
    const safetensors::Entry* entry = files_[number->second].find(tensor);
    if (entry == nullptr) {
      throw FormatError(fmt::format("{}: says that tensor {} is in {}, but it is not", path_.string(),
                                    quoted_name(tensor), quoted_name(file)));
    }
    tensors_.emplace(tensor, Place{number->second, entry});
  }
  // Tensors that the index omits are listed as well, so that a model's reader can report unused tensors.
  std::set<std::string> left_out;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const safetensors::Entry& entry : files_[file].tensors()) {
      if (index.contains(entry.name)) continue;
      if (!left_out.insert(entry.name).second) {
        throw FormatError(
            fmt::format("{}: omits tensor {}, which is in two of its files", path_.string(), quoted_name(entry.name)));
      }
      tensors_.emplace(entry.name, Place{file, &entry});
    }
  }
}

std::vector<std::string> ShardedSafetensors::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : tensors_) all.push_back(name);
  return all;
}

const ShardedSafetensors::Place& ShardedSafetensors::place(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  throw FormatError(
      fmt::format("{}: has no tensor {} among its {}", path_.string(), quoted_name(name), tensors_.size()));
}

const safetensors::Entry& ShardedSafetensors::entry(std::string_view name) const { return *place(name).entry; }

MappedBytes ShardedSafetensors::bytes(std::string_view name) const {
  const Place& at = place(name);
  return files_[at.file].bytes(*at.entry);
}

Tensor ShardedSafetensors::load(std::string_view name, Device device) const {
  const Place& at = place(name);
  return files_[at.file].load(*at.entry, device);
}

}  // namespace etna::io

namespace etna {

std::map<std::string, Tensor> load_sharded_safetensors(const FilePath& path, Device device) {
  const io::ShardedSafetensors model(path);
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : model.names()) tensors.emplace(name, model.load(name, device));
  return tensors;
}

}  // namespace etna
