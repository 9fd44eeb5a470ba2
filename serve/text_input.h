#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/serve/fields.h>
#include <etna/serve/service.h>

namespace etna::serve {

/// A text or tokens of a request, as tokens.
struct TextInput {
  std::vector<std::int32_t> tokens;
  std::string text = {};  ///< empty where tokens were given
};

/// Reads a field that is a text, an array of texts, an array of tokens, or an array of such arrays.
/// @param many set to whether it was an array of several inputs @throws ApiError 400
std::vector<TextInput> read_inputs(Fields& fields, const std::string& name, const Service& service, std::size_t model,
                                   std::size_t most);

/// The final hidden state of a text as a vector of length 1. Runs in the engine's thread.
/// @param pooling "mean" over all tokens, or "last" @throws ApiError
std::vector<float> embed(Service& service, std::size_t model, const std::string& client,
                         const std::vector<std::int32_t>& tokens, const std::string& pooling);

}  // namespace etna::serve
