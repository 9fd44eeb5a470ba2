#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/serve/api_error.h>
#include <etna/serve/endpoints.h>
#include <etna/serve/fields.h>
#include <etna/serve/text_input.h>

// POST /v1/rerank: documents by the cosine between their embedding and the query's.
namespace etna::serve {
namespace {

constexpr std::size_t kMaxDocuments = 1024;

std::string document_text(const Json& value, const std::string& path) {
  if (value.is_string()) return value.get<std::string>();
  Fields fields(value, path);
  const std::string text = fields.string("text");
  fields.finish();
  return text;
}

}  // namespace

HttpReply answer_rerank(Service& service, const HttpRequest& request) {
  const Json body = parse_json(request.body);
  Fields fields(body, "");
  const std::size_t model = service.model_index(fields.string("model"));
  const std::string query = fields.string("query");
  const Json& given = fields.array("documents");
  if (given.empty() || given.size() > kMaxDocuments) {
    throw bad_request("documents", fmt::format("documents has {} texts; wanted 1 to {}", given.size(), kMaxDocuments));
  }
  std::vector<std::string> documents;
  for (std::size_t i = 0; i < given.size(); ++i)
    documents.push_back(document_text(given[i], fmt::format("documents[{}]", i)));
  const auto top = fields.integer_if("top_n", {.least = 1}).value_or(std::ssize(documents));
  const bool with_documents = fields.flag_if("return_documents").value_or(false);
  const std::string pooling = fields.word_if("pooling", {"mean", "last"}).value_or("mean");
  fields.finish();

  const data::Tokenizer& tokenizer = service.tokenizer(model);
  std::int64_t tokens = 0;
  const auto embedded = [&](const std::string& text) {
    const std::vector<std::int32_t> ids = tokenizer.encode_prompt(text);
    tokens += std::ssize(ids);
    return embed(service, model, request.client, ids, pooling);
  };
  const std::vector<float> wanted = embedded(query);
  std::vector<double> scores;
  for (const std::string& document : documents) {
    if (request.gone()) throw ApiError(499, "invalid_request_error", "the client went away", "", "cancelled");
    const std::vector<float> vector = embedded(document);
    scores.push_back(std::inner_product(vector.begin(), vector.end(), wanted.begin(), 0.0));
  }
  std::vector<std::size_t> order(documents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min<std::size_t>(order.size(), static_cast<std::size_t>(top)));
  Json results = Json::array();
  for (const std::size_t i : order) {
    Json result = {{"index", i}, {"relevance_score", scores[i]}};
    if (with_documents) result["document"] = {{"text", documents[i]}};
    results.push_back(std::move(result));
  }
  return {.body = json_text({{"id", new_id("rerank-")},
                             {"object", "list"},
                             {"model", service.model(model).name},
                             {"results", std::move(results)},
                             {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})};
}

}  // namespace etna::serve
