#pragma once

#include <string>

#include <etna/models/internal/architecture.h>
#include <etna/models/internal/stored_weights.h>

/// Tensors of experts that files of Hugging Face hold in another order. Internal.
namespace etna::models {

/// Finds tensors of experts, [experts, in, out] in the file, as [experts, out, in], the rows of gates above those of up
/// projections, and their biases as one row. Those that their shapes show to be [experts, out, in] there are taken as
/// they are. Those in MXFP4, which are two tensors there ("..._blocks" and "..._scales"), are found as blocks of that
/// format.
/// @param file for errors @param config which must outlive the result
/// @throws FormatError, where it is called, for tensors of other shapes
StoredWeights::Find experts_by_row(std::string file, StoredWeights::Find find, const DecoderConfig& config);
/// Whether a tensor of the file is a part of one that is found so.
bool is_part_of_experts(const std::string& name);

}  // namespace etna::models
