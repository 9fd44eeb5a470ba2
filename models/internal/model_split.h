#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/models/decoder_config.h>
#include <etna/tensor/tensor.h>

/// How weights are divided over ranks, and what the ranks compute is put together. Internal.
namespace etna::models {

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
