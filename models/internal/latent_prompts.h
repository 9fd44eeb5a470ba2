#pragma once

#include <cstdint>

#include <etna/models/decoder_config.h>
#include <etna/tensor/tensor.h>

/// Prompts of latent attention, for which keys and values of all heads are made of the rows in the cache. Internal.
namespace etna::models {

/// Whether so many queries attend to keys and values of all heads with fewer multiplications than to short rows. For a
/// key and a head, a query has latent.size + rope.size multiplications of scores and latent.size of values by short
/// rows, and head_size of each by keys and values, to whose size values are padded. Those are made once for all
/// queries, by latent.size multiplications an element. Positions do not count, so that a chunk of a prompt gives the
/// same bits whether the chunks before it were read or found.
bool expands_latent(const DecoderConfig& config, std::int64_t queries);

/// The most bytes of keys and values that are there at once, in f32, for so many positions or fewer: 256 MiB, or what
/// one head has where that is more.
std::uint64_t expanded_latent_bytes(const DecoderConfig& config, std::int64_t positions);

/// The blocks of `positions` positions, where a layer would read all that a table has: those of latent attention.
/// @param table [B, M] @return [B, at most M]
Tensor table_to(const DecoderConfig& config, const Tensor& table, std::int64_t positions);

}  // namespace etna::models
