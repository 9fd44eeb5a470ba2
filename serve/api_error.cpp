#include <etna/serve/api_error.h>

#include <nlohmann/json.hpp>

#include <etna/serve/json_text.h>

namespace etna::serve {

ApiError bad_request(const std::string& param, const std::string& message, const std::string& code) {
  return {400, "invalid_request_error", message, param, code};
}

ApiError not_found(const std::string& message, const std::string& code, const std::string& param) {
  return {404, "invalid_request_error", message, param, code};
}

ApiError too_many(const std::string& message, int retry_after) {
  return {429, "rate_limit_error", message, {}, "queue_full", retry_after};
}

ApiError unavailable(const std::string& message, const std::string& code, int retry_after) {
  return {503, "server_error", message, {}, code, retry_after};
}

std::string error_body(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  return json_text({{"error",
                     {{"message", error.what()},
                      {"type", error.type},
                      {"param", or_null(error.param)},
                      {"code", or_null(error.code)}}}});
}

}  // namespace etna::serve
