#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <etna/serve/answer_fields.h>
#include <etna/serve/api_error.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/text_input.h>

// POST /v1/embeddings
namespace etna::serve {
namespace {

constexpr std::size_t kMaxInputs = 2048;

std::string base64_of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little, "clients read little-endian floats");
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63];
  }
  return text;
}

/// The first so many numbers, at length 1.
void shorten(std::vector<float>& vector, std::size_t size) {
  vector.resize(size);
  double sum = 0;
  for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  if (sum == 0) return;
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(sum));
}

}  // namespace

HttpReply answer_embeddings(Service& service, const HttpRequest& request) {
  const Json body = parse_json(request.body);
  Fields fields(body, "");
  const std::size_t model = service.model_index(fields.string("model"));
  const std::vector<TextInput> inputs = read_inputs(fields, "input", service, model, kMaxInputs);
  const std::string format = fields.word_if("encoding_format", {"float", "base64"}).value_or("float");
  const std::string pooling = fields.word_if("pooling", {"mean", "last"}).value_or("mean");
  const std::int64_t width = service.model(model).decoder->config.width;
  const std::int64_t dimensions = fields.integer_if("dimensions", {.least = 1, .most = width}).value_or(width);
  fields.string_if("user");
  fields.finish();
  Json data = Json::array();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (request.gone()) throw ApiError(499, "invalid_request_error", "the client went away", "", "cancelled");
    std::vector<float> vector = embed(service, model, request.client, inputs[i].tokens, pooling);
    if (dimensions < width) shorten(vector, static_cast<std::size_t>(dimensions));
    tokens += std::ssize(inputs[i].tokens);
    data.push_back({{"object", "embedding"},
                    {"index", i},
                    {"embedding", format == "base64" ? Json(base64_of(vector)) : Json(vector)}});
  }
  return {.body = json_text({{"object", "list"},
                             {"data", std::move(data)},
                             {"model", service.model(model).name},
                             {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})};
}

}  // namespace etna::serve
