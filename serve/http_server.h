#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace etna::serve {

class Service;

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                     ///< 0: any free one
  std::vector<std::string> keys = {};  ///< one of which each request must have; empty: none needed
  /// Names in a Host header that are answered without keys, besides localhost, addresses and `host`: a web page whose
  /// name leads to this machine must not reach the server.
  std::vector<std::string> allow_hosts = {};
  std::size_t connections = 256;       ///< more get 503
  std::size_t body_bytes = 8u << 20;   ///< larger bodies get 413
  std::size_t head_bytes = 64u << 10;  ///< of the request line and all headers; larger ones get 431
  std::size_t head_lines = 100;        ///< more headers get 431
  int idle_seconds = 5;                ///< an unused connection is closed
  int head_seconds = 10;               ///< to send the head of a request
  int body_seconds = 60;               ///< to send its body
  int write_seconds = 30;              ///< a client that reads nothing for so long is gone
  bool log = true;                     ///< a line for each request on standard error
};

/// The keys of a file, one per line; blank lines and lines that begin with # are skipped.
/// @throws FormatError for a file that cannot be read, has no key, or a key with other than visible ASCII characters
std::vector<std::string> read_keys(const std::string& file);

/// Speaks HTTP/1.1 for a Service: a thread accepts connections, each of which has a thread while it is open.
class HttpServer {
 public:
  HttpServer(Service& service, const HttpOptions& options);
  /// As stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Begins to answer. @return the port @throws Error if the address cannot be used
  int start();
  /// Ends all connections and waits for their threads.
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace etna::serve
