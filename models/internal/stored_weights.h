#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/models/internal/model_split.h>
#include <etna/models/projection.h>
#include <etna/tensor/io/mapped_bytes.h>

/// Weights in files of other programs.
namespace etna::models {

struct WeightPlacement {
  Device device = {};
  bool trainable = false;        ///< matrices are decoded to f32 and become parameters
  std::int64_t host_layers = 0;  ///< the first blocks, whose weights stay on the CPU
  bool host_experts = false;     ///< the matrices of experts stay on the CPU

  /// @param weight "blocks.0.attention.query.weight"
  Device of(const std::string& weight) const;
};

/// A tensor in any kind of file.
struct StoredTensor {
  const quant::BlockFormat* format = nullptr;
  Shape shape;
  io::MappedBytes bytes;
  Tensor owned = {};  ///< the values, if they are not in a mapping

  std::span<const std::byte> span() const;
};

/// The location of a decoder's weight in a file: rows [begin, begin + rows) of a tensor, or all of it.
struct StoredPlace {
  std::string name;
  std::int64_t begin = 0;
  bool transposed = false;  ///< the file has [in, out]
  std::int64_t packed = 0;  ///< rows of all that are packed in the tensor; 0: these are alone in it
  std::int64_t rows = 0;    ///< how many; 0: all of the weight
};
/// Of a weight, whose rows may be those of several tensors.
using StoredPlaces = std::vector<StoredPlace>;

/// The weights of a mapped file. Kinds of files differ in two functions.
class StoredWeights : public Weights {
 public:
  using Find = std::function<std::optional<StoredTensor>(const std::string& name)>;
  using Locate = std::function<StoredPlaces(const std::string& name)>;

  /// @param file for errors @param find a tensor of the file by its name there @param locate a decoder's name → its
  /// places
  StoredWeights(std::string file, Find find, Locate locate, WeightPlacement placement)
      : file_(std::move(file)), find_(std::move(find)), locate_(std::move(locate)), placement_(placement) {}

  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) override;
  Tensor vector(const std::string& name, std::int64_t size) override;
  /// Whether the file has the weight.
  bool has(const std::string& name) const { return find_(locate_(name).front().name).has_value(); }
  /// Makes matrix() and vector() return the part of a rank. @param split its `block` is set here, by the formats of
  /// matrices whose columns are divided @param config must outlive this
  /// @return the split, with which the decoder is made @throws FormatError as decoder_part(), naming the file
  ModelSplit divide(const DecoderConfig& config, ModelSplit split);
  /// Those of the given tensors that were not read, in order.
  std::vector<std::string> unused(const std::vector<std::string>& names) const;

  /// Added to the weights of norms, but those of delta nets: 1 where the file stores their difference from 1.
  double norm_offset = 0;
  /// The file has the rates by which states decay, below 0, and the model the logarithms of their magnitudes.
  bool has_decay_rates = false;
  /// Matrices of blocks become -s, 0 and s, where s is the mean of their magnitudes (Ma et al. 2024).
  bool rounds_to_ternary = false;
  /// The separate factor that the file has for a matrix, by the matrix's name in the file.
  std::function<std::optional<double>(const std::string& name)> factor_of = {};

 private:
  Device device_of(const std::string& name) const;
  StoredTensor find(const std::string& name);
  WeightPart part_of(const std::string& name, std::int64_t rows, std::int64_t columns) const;
  Matrix matrix_at(const StoredPlace& place, const std::string& name, std::int64_t place_rows, const WeightPart& part,
                   const PartRange& own);
  Matrix blocks_at(const StoredPlace& place, const std::string& name, const StoredTensor& stored,
                   const WeightPart& part, const PartRange& own) const;
  Tensor vector_at(const StoredPlace& place, const std::string& name, std::int64_t size);

  std::string file_;
  Find find_;
  Locate locate_;
  WeightPlacement placement_;
  const DecoderConfig* config_ = nullptr;   ///< null before divide()
  const DecoderConfig* divided_ = nullptr;  ///< null: parts are whole
  ModelSplit split_;
  std::set<std::string> used_;
};

}  // namespace etna::models
