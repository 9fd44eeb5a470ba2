#pragma once

#include <string>

#include <etna/device/error.h>

namespace etna::serve {

/// Why a request is refused, as its client reads it.
struct ApiError : Error {
  ApiError(int http_status, std::string error_type, const std::string& message, std::string field = {},
           std::string error_code = {}, int seconds = 0)
      : Error(message),
        status(http_status),
        type(std::move(error_type)),
        param(std::move(field)),
        code(std::move(error_code)),
        retry_after(seconds) {}

  int status;        ///< of HTTP
  std::string type;  ///< "invalid_request_error", ...
  std::string param, code;
  int retry_after;         ///< seconds; 0: not said
  std::string allow = {};  ///< the methods that a path takes; empty: not said
};

/// 400: a field that is missing, unknown or has a wrong value. @param param the field's path, "messages[0].role"
ApiError bad_request(const std::string& param, const std::string& message, const std::string& code = "invalid_value");
/// 404
ApiError not_found(const std::string& message, const std::string& code, const std::string& param = {});
/// 429: too much waits already.
ApiError too_many(const std::string& message, int retry_after);
/// 503: not now.
ApiError unavailable(const std::string& message, const std::string& code, int retry_after = 0);

/// {"error": {"message", "type", "param", "code"}}, as OpenAI's API answers.
std::string error_body(const ApiError& error);

}  // namespace etna::serve
