#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/models/encoder.h>

/// Texts that a model reads together.
namespace etna::models {

/// Texts as tokens, with the tokens' types where they are pairs.
using TokenRows = std::vector<data::TokenPair>;

/// Reads texts of similar lengths together. @param rows none of them empty
/// @param read gets an input on the device, with padding behind the texts, and the texts' indices
void for_each_batch(const TokenRows& rows, Device device, bool typed,
                    const std::function<void(const EncoderInput& input, std::span<const std::size_t> texts)>& read);

/// A decoder's vectors of tokens, with padding behind the texts. @return [B, T, width]
Tensor hidden_of_texts(const Decoder& decoder, const EncoderInput& input);

/// @throws FormatError where there is none
void require_tokenizer(const data::Tokenizer* tokenizer, const FilePath& path);

}  // namespace etna::models
