#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/tensor/io/gguf.h>

namespace etna::models {

/// The metadata of a GGUF file about an architecture, whose name keys begin with. Internal.
class GgufFields {
 public:
  GgufFields(const io::GgufFile& from, const std::string& architecture) : file(from), prefix_(architecture + ".") {}

  std::int64_t integer(const char* key) const { return file.integer(prefix_ + key); }
  std::int64_t integer(const char* key, std::int64_t otherwise) const { return file.integer(prefix_ + key, otherwise); }
  /// A number that may be given for each layer, if all are equal.
  /// @param some_have_none layers may have 0
  std::int64_t of_layers(const char* key, std::int64_t layers, bool some_have_none) const;
  /// A number of each layer, given once for all or in a list. @throws FormatError for a list of another length
  std::vector<std::int64_t> by_layer(const char* key, std::int64_t layers) const;
  double number(const char* key, double otherwise) const { return file.number(prefix_ + key, otherwise); }
  std::string string(const char* key, const std::string& otherwise) const {
    return file.string(prefix_ + key, otherwise);
  }
  bool boolean(const char* key, bool otherwise) const { return file.boolean(prefix_ + key, otherwise); }
  bool has(const char* key) const { return file.find(prefix_ + key) != nullptr; }
  const io::GgufValue* find(const char* key) const { return file.find(prefix_ + key); }
  /// Whether a layer has a tensor ("attn_q.weight").
  bool has_tensor(std::int64_t layer, const char* part) const;

  const io::GgufFile& file;

 private:
  std::string prefix_;
};

}  // namespace etna::models
