#pragma once

#include <cstdint>

#include <etna/models/decoder_config.h>
#include <etna/tensor/tensor.h>

/// Prompts of latent attention, for which keys and values of all heads are made of the rows in the cache. Internal.
namespace etna::models {

/// How many of the first rows of a chunk attend to keys and values of all heads: its whole blocks, so that a block has
/// the same bits whether those before it were read with it or found in the cache. 0 where short rows are cheaper. For a
/// key and a head, a query has latent.size + rope.size multiplications of scores and latent.size of values by short
/// rows, and head_size of each by keys and values, to whose size values are padded. Those are made once for all
/// queries, by latent.size multiplications an element, which chunks of 512 rows must gain.
std::int64_t expanded_rows(const DecoderConfig& config, std::int64_t rows);

/// The most bytes of keys and values that are there at once, in f32, for so many positions or fewer: 256 MiB, or what
/// one head has where that is more.
std::uint64_t expanded_latent_bytes(const DecoderConfig& config, std::int64_t positions);

/// The blocks of `positions` positions, where a layer would read all that a table has: those of latent attention.
/// @param table [B, M] @return [B, at most M]
Tensor table_to(const DecoderConfig& config, const Tensor& table, std::int64_t positions);

}  // namespace etna::models
