#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/tensor/tensor.h>

/// Decoders divided over the ranks of a group, for models that do not fit one device (tensor parallelism, Shoeybi et
/// al. 2019). Each rank has some heads of attention with their keys and values, some columns of the feed-forward layer,
/// and some rows of the embedding and the head. All ranks run the same steps on the same tokens; what they compute
/// behind attention and feed-forward is summed over the group, and logits are gathered.
namespace etna::models {

struct ModelSplit {
  int rank = 0, ranks = 1;
  /// Columns of attention's output and of the down projection that stay together: the size of the weights' blocks.
  std::int64_t block = 1;

  bool is_split() const { return ranks > 1; }
};

struct PartRange {
  std::int64_t begin = 0, size = 0;
  std::int64_t end() const { return begin + size; }
};

/// What a rank has. Parts are equal where sizes allow, and else differ by one unit that cannot be divided.
struct DecoderPart {
  PartRange heads, kv_heads;  ///< where there are fewer heads of keys than ranks, several ranks have the same one
  PartRange feed_forward;     ///< columns between its matrices
  PartRange vocabulary;       ///< rows of the embedding and the head
};

/// @throws FormatError for a model that cannot be divided so, naming the numbers of ranks that work
DecoderPart decoder_part(const DecoderConfig& config, const ModelSplit& split);
/// The sizes of a rank's blocks: its heads, and its columns of the feed-forward layer. Other fields are the model's.
/// @throws as decoder_part()
DecoderConfig part_config(const DecoderConfig& config, const ModelSplit& split);

/// The part of a weight that a rank has.
struct WeightPart {
  std::int64_t all_rows = 0, all_columns = 0;  ///< of the whole weight
  std::vector<PartRange> rows;                 ///< one below the other
  PartRange columns;
  bool is_zero = false;  ///< a bias that rank 0 alone adds to a sum over ranks

  bool is_whole() const { return rows.size() == 1 && rows[0].size == all_rows && columns.size == all_columns; }
};
/// @param name "blocks.0.attention.query.weight" @param rows, columns as the rank's part of the decoder asks for them;
/// one column for a vector
WeightPart weight_part(const DecoderConfig& config, const ModelSplit& split, const std::string& name, std::int64_t rows,
                       std::int64_t columns);

/// The sum over all ranks of what each computed with its part; x itself where the model is whole.
/// @throws Error where the group has another number of ranks than the model has parts
Tensor sum_of_parts(const Tensor& x, const ModelSplit& split);
/// The parts of all ranks side by side. @param x [..., part], of at most `most` columns @param most of any rank
/// @param size of all ranks together @return [..., size] @throws as sum_of_parts()
Tensor join_parts(const Tensor& x, const ModelSplit& split, std::int64_t most, std::int64_t size);

}  // namespace etna::models
