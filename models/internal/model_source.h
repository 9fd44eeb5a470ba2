#pragma once

#include <functional>
#include <string>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/file_path.h>
#include <etna/models/internal/stored_weights.h>
#include <etna/models/internal/weight_names.h>
#include <etna/models/model_file.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/sharded_safetensors.h>

/// What readers of models share: files, and the tensors in them.
namespace etna::models {

/// @throws FormatError for a file that cannot be read
std::string read_text(const FilePath& file);
bool is_file(const FilePath& path);
bool begins_as_gguf(const FilePath& path);

/// The plain format of a dtype, or null.
const quant::BlockFormat* format_of(DType dtype);
WeightPlacement placement_of(const LoadOptions& options);

/// Finds tensors by their names in a file. Results keep the file's mapping.
StoredWeights::Find tensors_of(const io::GgufFile& file);
StoredWeights::Find tensors_of(const io::ShardedSafetensors& file);
HasTensor names_of(const io::GgufFile& file);
/// @param file which must outlive the result
HasTensor names_of(const io::ShardedSafetensors& file);

/// @throws FormatError for tensors that should be parts of the model, and warns of others.
void check_unused(const std::string& file, const std::vector<std::string>& unused,
                  const std::function<UnusedTensor(const std::string& name)>& kind_of);

/// The tokenizer in a GGUF file, or null.
std::shared_ptr<const data::Tokenizer> tokenizer_in(const io::GgufFile& file, const FilePath& path);

}  // namespace etna::models
