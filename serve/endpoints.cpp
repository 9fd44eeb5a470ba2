#include <etna/serve/endpoints.h>

#include <fmt/format.h>

#include <etna/serve/api_error.h>
#include <etna/serve/json_text.h>
#include <etna/serve/messages_fields.h>

namespace etna::serve {

const std::vector<Endpoint>& endpoints() {
  static const std::vector<Endpoint> table = {
      {"POST", "/v1/chat/completions", answer_chat_completions, true, nullptr, true},
      {"POST", "/v1/completions", answer_completions, true, nullptr, true},
      {"POST", "/v1/responses", answer_responses, true, nullptr, true},
      {"POST", "/v1/messages", answer_messages, true, anthropic_error_body, true},
      {"POST", "/v1/messages/count_tokens", answer_count_tokens, true, anthropic_error_body},
      {"POST", "/v1/embeddings", answer_embeddings},
      {"POST", "/v1/rerank", answer_rerank},
      {"GET", "/v1/models", answer_models},
      {"GET", "/v1/models/{id}", answer_model},
      {"POST", "/tokenize", answer_tokenize},
      {"POST", "/detokenize", answer_detokenize},
      {"POST", "/apply-template", answer_apply_template},
      {"GET", "/health", answer_health, false},
      {"GET", "/metrics", answer_metrics},
      {"GET", "/slots", answer_slots},
      {"POST", "/slots/save", answer_save_slots},
      {"GET", "/receipts/{id}", answer_receipt},
      {"GET", "/endpoints", answer_endpoints, false},
      {"GET", "/", answer_page, false},
  };
  return table;
}

namespace {

/// Whether a path is that of a row; @param key what its last part is
bool has_path(const Endpoint& endpoint, std::string_view path, std::string& key) {
  const std::string_view pattern = endpoint.path;
  const std::size_t open = pattern.find('{');
  if (open == std::string_view::npos) return pattern == path;
  if (!path.starts_with(pattern.substr(0, open)) || path.size() == open) return false;
  key = path.substr(open);
  return true;
}

}  // namespace

const Endpoint* find_endpoint(std::string_view method, std::string_view path, std::string& key) {
  for (const Endpoint& endpoint : endpoints())
    if (method == endpoint.method && has_path(endpoint, path, key)) return &endpoint;
  return nullptr;
}

std::string methods_of(std::string_view path) {
  std::string methods, key;
  for (const Endpoint& endpoint : endpoints()) {
    if (!has_path(endpoint, path, key)) continue;
    methods += methods.empty() ? endpoint.method : fmt::format(", {}", endpoint.method);
  }
  return methods;
}

HttpReply error_reply(const ApiError& error, const Endpoint* endpoint) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = endpoint != nullptr && endpoint->error_body != nullptr ? endpoint->error_body(error) : error_body(error);
  if (error.retry_after > 0) reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (!error.allow.empty()) reply.headers.emplace_back("Allow", error.allow);
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

HttpReply answer_endpoints(Service&, const HttpRequest&) {
  Json rows = Json::array();
  for (const Endpoint& endpoint : endpoints()) rows.push_back(fmt::format("{} {}", endpoint.method, endpoint.path));
  return {.body = json_text({{"server", "etna " ETNA_VERSION}, {"endpoints", rows}})};
}

}  // namespace etna::serve
