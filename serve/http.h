#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// HTTP as endpoints see it, without the library that speaks it.
namespace etna::serve {

class RequestReceipt;
class Service;
struct ApiError;

struct HttpRequest {
  std::string method, path;  ///< the path decoded, without a query
  std::string body;
  std::string id;                                     ///< for logs and the client
  std::string client;                                 ///< who takes turns with others: a key's number, or an address
  std::string key = {};                               ///< what the last part "{...}" of the endpoint's path matched
  std::function<bool()> gone = [] { return false; };  ///< nobody waits for the answer any more
  std::shared_ptr<RequestReceipt> receipt = {};       ///< that the client asked for; null: none
};

/// Where a reply that comes in pieces goes. False: the client is gone, so write no more.
using PieceWriter = std::function<bool(std::string_view piece)>;

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// Writes the body in pieces; `body` is empty then. Must not throw.
  std::function<void(const PieceWriter& write)> pieces = {};
};

/// A row of the table of endpoints (endpoints.cpp).
struct Endpoint {
  const char* method;
  const char* path;  ///< may end in "{...}", which matches any rest
  HttpReply (*answer)(Service& service, const HttpRequest& request);
  bool needs_key = true;                                       ///< where the server has keys
  std::string (*error_body)(const ApiError& error) = nullptr;  ///< null: OpenAI's form
  bool generates = false;                                      ///< takes the header X-Etna-Receipt
};
const std::vector<Endpoint>& endpoints();
/// The endpoint of a request, its last part in `key`; null where there is none.
const Endpoint* find_endpoint(std::string_view method, std::string_view path, std::string& key);
/// "GET, POST": the methods that a path has; empty where nothing has the path.
std::string methods_of(std::string_view path);

/// An answer to a failed request, in the form of its API. @param endpoint may be null
HttpReply error_reply(const ApiError& error, const Endpoint* endpoint = nullptr);

}  // namespace etna::serve
