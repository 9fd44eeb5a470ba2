#include <etna/serve/text_input.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/models/model_file.h>
#include <etna/serve/api_error.h>
#include <etna/tensor/ops.h>

namespace etna::serve {
namespace {

std::vector<std::int32_t> read_token_ids(const Json& value, const std::string& path, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json& token = value[i];
    const bool fits =
        token.is_number_integer() && token.get<double>() >= 0 && token.get<double>() < static_cast<double>(vocabulary);
    if (!fits) {
      throw bad_request(
          fmt::format("{}[{}]", path, i),
          fmt::format("{}[{}] is {}; wanted a token, an integer from 0 to {}", path, i, shown(token), vocabulary - 1));
    }
    tokens.push_back(token.get<std::int32_t>());
  }
  return tokens;
}

TextInput text_input(const Json& value, const std::string& path, const Service& service, std::size_t model) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    return {service.tokenizer(model).encode_prompt(text), text};
  }
  if (value.is_array()) return {read_token_ids(value, path, service.model(model).decoder->config.vocabulary)};
  throw bad_request(
      path, fmt::format("{} is {} ({}); wanted a string or an array of tokens", path, shown(value), json_kind(value)),
      "invalid_type");
}

}  // namespace

std::vector<TextInput> read_inputs(Fields& fields, const std::string& name, const Service& service, std::size_t model,
                                   std::size_t most) {
  const Json& value = fields.any(name);
  const std::string path = fields.path_of(name);
  if (!value.is_array() || (!value.empty() && value[0].is_number())) return {text_input(value, path, service, model)};
  if (value.empty()) throw bad_request(path, fmt::format("{} is an empty array; wanted at least one text", path));
  if (value.size() > most)
    throw bad_request(path, fmt::format("{} has {} texts; wanted at most {}", path, value.size(), most));
  std::vector<TextInput> inputs;
  for (std::size_t i = 0; i < value.size(); ++i)
    inputs.push_back(text_input(value[i], fmt::format("{}[{}]", path, i), service, model));
  return inputs;
}

std::vector<float> embed(Service& service, std::size_t model, const std::string& client,
                         const std::vector<std::int32_t>& tokens, const std::string& pooling) {
  const ServedModel& served = service.model(model);
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (length == 0) throw bad_request("input", "an input has no tokens; give it some text");
  if (length > served.context) {
    throw bad_request("input",
                      fmt::format("an input has {} tokens; '{}' has a context of {} tokens here", length, served.name,
                                  served.context),
                      "context_length_exceeded");
  }
  std::vector<float> vector;
  service.engine().run(client, [&] {
    const NoGrad no_grad;
    const Tensor hidden = served.generator->hidden(tokens, served.adapter);
    const Tensor pooled = pooling == "last" ? hidden.select(0, length - 1) : hidden.to(f32).mean(0);
    vector = pooled.to(f32).to(kCPU).contiguous().to_vector<float>();
  });
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  if (!std::isfinite(sum) || sum == 0)
    throw ApiError(500, "server_error", "the model's hidden state is not finite, or 0", "", "generation_failed");
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(sum));
  return vector;
}

}  // namespace etna::serve
