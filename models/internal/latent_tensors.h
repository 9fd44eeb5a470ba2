#pragma once

#include <string>

#include <etna/models/decoder_config.h>
#include <etna/models/internal/stored_weights.h>

/// Matrices of latent attention that GGUF files hold in two parts. Internal.
namespace etna::models {

/// Finds "attn_kv_b", the matrix from which keys and values of all heads follow, in files that have its halves instead:
/// "attn_k_b", [heads, in, out], and "attn_v_b", [heads, out, in].
/// @param file for errors @param config must outlive this
/// @throws FormatError, where it is called, for halves of other shapes
StoredWeights::Find with_latent_halves(std::string file, StoredWeights::Find find, const DecoderConfig& config);

}  // namespace etna::models
