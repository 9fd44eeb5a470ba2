#include <etna/serve/http_server.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/serve/api_error.h>
#include <etna/serve/http.h>
#include <etna/serve/internal/connection.h>
#include <etna/serve/internal/keys.h>
#include <etna/serve/service.h>
#include <etna/train/progress.h>

namespace etna::serve {
namespace {

using HttpClock = std::chrono::steady_clock;

constexpr const char* kReceiptHeader = "X-Etna-Receipt";

/// What is known of a request before its reply is written; of this thread.
struct Exchange {
  HttpClock::time_point begin;
  std::string id, client, endpoint = "unknown";
};
Exchange& current_exchange() {
  thread_local Exchange exchange;
  return exchange;
}

/// The client's own id, if it is fit for a header and a line of a log.
std::string id_of(const httplib::Request& request) {
  const std::string given = request.get_header_value("X-Request-Id");
  const auto plain = [](unsigned char c) { return c > 32 && c < 127; };
  if (!given.empty() && given.size() <= 128 && std::all_of(given.begin(), given.end(), plain)) return given;
  return new_id("req_");
}

bool has_body(const httplib::Request& request) {
  return request.has_header("Transfer-Encoding") ||
         (request.has_header("Content-Length") && request.get_header_value("Content-Length") != "0");
}

/// Refuses heads of which two readers of HTTP, such as a proxy and this one, could see different ends (smuggling).
void check_head(const httplib::Request& request) {
  const auto require = [](bool fine, const std::string& why) {
    if (fine) return;
    current_connection()->spoil();  // where the request ends is not known
    throw ApiError(400, "invalid_request_error", why, "headers", "invalid_headers");
  };
  const auto token = [](unsigned char c) { return c > 32 && c < 127 && c != ':'; };
  const auto control = [](unsigned char c) { return (c < 32 && c != '\t') || c == 127; };
  for (const auto& [name, value] : request.headers) {
    require(!name.empty() && std::all_of(name.begin(), name.end(), token), "the name of a header is not one of HTTP");
    require(std::none_of(value.begin(), value.end(), control),
            fmt::format("the header '{:.64}' contains a control character", name));
  }
  const std::size_t lengths = request.headers.count("Content-Length");
  const std::size_t codings = request.headers.count("Transfer-Encoding");
  require(lengths + codings <= 1, "the request says how long it is more than once; send one Content-Length");
  if (lengths == 1) {
    const std::string length = request.get_header_value("Content-Length");
    require(!length.empty() && length.size() < 19 && length.find_first_not_of("0123456789") == std::string::npos,
            fmt::format("Content-Length is '{:.32}'; wanted a number of bytes", length));
  }
  if (codings == 1) {
    const std::string coding = request.get_header_value("Transfer-Encoding");
    require(coding == "chunked", fmt::format("Transfer-Encoding is '{:.32}'; this server knows chunked alone", coding));
  }
}

/// "application/json", also with parameters.
bool is_json(const httplib::Request& request) {
  const std::string type = request.get_header_value("Content-Type");
  return type == "application/json" || type.starts_with("application/json;") || type.starts_with("application/json ");
}

/// "localhost" of "localhost:8080", "::1" of "[::1]:8080"
std::string host_name(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

/// Whether a name means this machine wherever it is looked up.
bool is_own_name(const std::string& name, const HttpOptions& options) {
  const bool address =
      name.find_first_not_of("0123456789.") == std::string::npos || name.find(':') != std::string::npos;
  const auto& more = options.allow_hosts;
  return address || name == "localhost" || name == options.host ||
         std::find(more.begin(), more.end(), name) != more.end();
}

class Http : public httplib::Server {
 public:
  Http(Service& service, HttpOptions options) : service_(service), options_(std::move(options)), keys_(options_.keys) {
    new_task_queue = [this] { return new httplib::ThreadPool(options_.connections + 8); };
    set_payload_max_length(options_.body_bytes);
    set_keep_alive_max_count(10'000);
    set_socket_options([this](socket_t socket) {
      listening_ = socket;
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return before(request, response) ? HandlerResponse::Handled : HandlerResponse::Unhandled;
    });
    Post(".*", [this](const httplib::Request& request, httplib::Response& response,
                      const httplib::ContentReader& reader) { post(request, response, reader); });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      // What the library refuses itself.
      const ApiError error{response.status, "invalid_request_error",
                           response.status == 400 ? "the request is not HTTP that this server understands"
                                                  : fmt::format("the request failed with status {}", response.status)};
      response.set_content(error_body(error), "application/json");
      response.set_header("Connection", "close");
      if (Connection* connection = current_connection()) connection->spoil();
    });
    set_logger([this](const httplib::Request& request, const httplib::Response& response) { log(request, response); });
  }

  /// The queue of connections that wait to be accepted is longer than the library's.
  void lengthen_backlog() const { ::listen(listening_, 512); }
  void end() {
    stopping_ = true;
    stop();
  }

 private:
  // The library serves a connection here; with a stream of our own, its reads can be limited and its client watched.
  bool process_and_close_socket(socket_t socket) override {
    try {
      Connection connection(socket, options_, stopping_);
      const Counted counted(service_.connections);
      std::string remote, local;
      int remote_port = 0, local_port = 0;
      connection.get_remote_ip_and_port(remote, remote_port);
      connection.get_local_ip_and_port(local, local_port);
      current_connection() = &connection;
      for (int left = 10'000; left > 0 && !stopping_ && connection.wait_for_request(); --left) {
        current_exchange() = {HttpClock::now(), new_id("req_"), remote};
        bool closed = false;
        const bool fine = process(*this, connection, {remote, remote_port, local, local_port}, left == 1, closed);
        if (!fine || closed || connection.spoiled()) break;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "serve: a connection failed: %s\n", error.what());
    }
    current_connection() = nullptr;
    return true;
  }

  struct Ends {
    std::string remote;
    int remote_port;
    std::string local;
    int local_port;
  };
  /// The library's versions differ in what they take.
  template <typename Self>
  static bool process(Self& self, httplib::Stream& stream, const Ends& ends, bool last, bool& closed) {
    const auto setup = [&](httplib::Request& request) {
      request.remote_addr = ends.remote;
      request.remote_port = ends.remote_port;
    };
    if constexpr (requires { self.process_request(stream, last, closed, setup); })
      return self.process_request(stream, last, closed, setup);
    else
      return self.process_request(stream, ends.remote, ends.remote_port, ends.local, ends.local_port, last, closed,
                                  setup);
  }

  struct Counted {
    explicit Counted(std::atomic<std::int64_t>& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    std::atomic<std::int64_t>& count_;
  };

  /// Everything but requests with a body that an endpoint takes. @return whether there is a reply
  bool before(const httplib::Request& request, httplib::Response& response) {
    Exchange& exchange = current_exchange();
    exchange.id = id_of(request);
    const Endpoint* endpoint = nullptr;
    std::string part;
    HttpReply reply;
    try {
      const bool reads = request.method == "GET" || request.method == "HEAD";
      endpoint = find_endpoint(reads ? "GET" : request.method, request.path, part);
      if (endpoint != nullptr) exchange.endpoint = endpoint->path;
      check_head(request);
      check(request, endpoint);
      if (!reads) return false;
      if (has_body(request)) throw bad_request("", "a request with method GET has no body");
      reply = endpoint->answer(service_, asked(request, part));
    } catch (const ApiError& error) {
      reply = error_reply(error, endpoint);
    } catch (const std::exception& error) {
      reply = failed(error, endpoint);
    }
    if (has_body(request)) refuse_rest();
    write(std::move(reply), response);
    return true;
  }

  void check(const httplib::Request& request, const Endpoint* endpoint) {
    if (service_.connections > static_cast<std::int64_t>(options_.connections)) {
      current_connection()->spoil();
      throw unavailable("too many connections are open", "too_many_connections", 1);
    }
    const std::string host = host_name(request.get_header_value("Host"));
    if (keys_.empty() && !is_own_name(host, options_)) {
      throw ApiError(403, "permission_error",
                     fmt::format("without API keys this server answers to localhost and to addresses only, not to "
                                 "'{:.64}'; start it with --api-key-file, or with --allow-host {:.64}",
                                 host, host),
                     "", "host_not_allowed");
    }
    // Of keys, the client takes turns with others; without, its address does.
    if (!keys_.empty() && (endpoint == nullptr || endpoint->needs_key)) {
      const std::string header = request.get_header_value("Authorization");
      std::string key = request.get_header_value("x-api-key");
      if (header.starts_with("Bearer ")) key = header.substr(7);
      const std::optional<std::size_t> which = keys_.find(key);
      if (!which) {
        throw ApiError(401, "authentication_error",
                       key.empty()
                           ? "this server needs an API key; send 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
                           : "the API key is not one of this server's",
                       "", "invalid_api_key");
      }
      current_exchange().client = fmt::format("key {}", *which + 1);
    }
    if (endpoint == nullptr) {
      const std::string methods = methods_of(request.path);
      if (methods.empty())
        throw not_found(fmt::format("there is nothing at '{:.200}'; GET /endpoints lists what there is", request.path),
                        "unknown_path");
      ApiError error(405, "invalid_request_error",
                     fmt::format("'{}' takes {}, not {:.32}", request.path, methods, request.method), "",
                     "method_not_allowed");
      error.allow = methods;
      throw error;
    }
    check_receipt(request, *endpoint);
    if (request.method != "POST") return;
    if (!is_json(request)) {
      throw ApiError(415, "invalid_request_error", "the body must be JSON; send 'Content-Type: application/json'", "",
                     "unsupported_media_type");
    }
    if (std::strtoull(request.get_header_value("Content-Length").c_str(), nullptr, 10) > options_.body_bytes)
      throw too_large();
  }

  /// A receipt is asked for by a header, which is never ignored.
  void check_receipt(const httplib::Request& request, const Endpoint& endpoint) const {
    const std::size_t count = request.get_header_value_count(kReceiptHeader);
    if (count == 0) return;
    const std::string value = request.get_header_value(kReceiptHeader);
    if (count > 1 || value != "1") {
      throw bad_request(kReceiptHeader,
                        fmt::format("the header {} is '{:.64}'{}; wanted 1, or no such header", kReceiptHeader,
                                    training::printable(value), count > 1 ? ", and there are several" : ""));
    }
    if (!endpoint.generates) {
      throw bad_request(kReceiptHeader,
                        fmt::format("{} writes no text with a model, so it has no receipt; leave the header {} out",
                                    endpoint.path, kReceiptHeader),
                        "unsupported_value");
    }
    if (service_.options().receipts == nullptr) {
      throw bad_request(kReceiptHeader,
                        "this server counts no kernels, so it makes no receipts of requests; start it with "
                        "--receipts N, or leave the header X-Etna-Receipt out",
                        "receipts_disabled");
    }
  }

  ApiError too_large() const {
    return {413, "invalid_request_error", fmt::format("the body has more than {} bytes", options_.body_bytes), "",
            "body_too_large"};
  }

  void post(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
    std::string part;
    const Endpoint* endpoint = find_endpoint("POST", request.path, part);
    HttpReply reply;
    try {
      HttpRequest question = asked(request, part);
      bool fits = true;
      // In pieces, so that what is compressed cannot become more than is allowed.
      const bool read = reader([&](const char* data, std::size_t size) {
        fits = question.body.size() + size <= options_.body_bytes;
        if (fits) question.body.append(data, size);
        return fits;
      });
      if (!fits || response.status == 413) {
        refuse_rest();
        throw too_large();
      }
      // Readers differ in what they take for chunks, so nothing follows them.
      if (request.has_header("Transfer-Encoding")) refuse_rest();
      if (!read) {
        refuse_rest();
        throw ApiError(408, "invalid_request_error", "the body did not come, or cannot be decoded", "",
                       "incomplete_body");
      }
      if (request.has_header(kReceiptHeader)) {
        question.receipt =
            service_.options().receipts->open(question.client, question.id, fmt::format("POST {}", endpoint->path));
      }
      reply = endpoint->answer(service_, question);
      if (question.receipt) reply.headers.emplace_back("X-Etna-Receipt-Id", question.receipt->id());
    } catch (const ApiError& error) {
      reply = error_reply(error, endpoint);
    } catch (const std::exception& error) {
      reply = failed(error, endpoint);
    }
    write(std::move(reply), response);
  }

  HttpRequest asked(const httplib::Request& request, const std::string& part) {
    const Connection* connection = current_connection();
    const Exchange& exchange = current_exchange();
    HttpRequest question{request.method, request.path, {}, exchange.id, exchange.client, part};
    question.gone = [this, connection] { return stopping_ || connection->peer_gone(); };
    return question;
  }

  HttpReply failed(const std::exception& error, const Endpoint* endpoint) const {
    std::fprintf(stderr, "serve: %s failed: %s\n", current_exchange().id.c_str(),
                 training::printable(error.what()).c_str());
    const bool memory = dynamic_cast<const OutOfMemory*>(&error) || dynamic_cast<const std::bad_alloc*>(&error);
    if (memory || dynamic_cast<const DeviceError*>(&error))
      return error_reply(unavailable(error.what(), memory ? "out_of_memory" : "device_lost"), endpoint);
    return error_reply(
        ApiError(500, "server_error", fmt::format("the server failed: {}", error.what()), "", "internal_error"),
        endpoint);
  }

  /// Nobody reads the rest of the request, so no other one can follow it.
  static void refuse_rest() { current_connection()->spoil(); }

  void write(HttpReply reply, httplib::Response& response) const {
    response.status = reply.status;
    response.set_header("X-Request-Id", current_exchange().id);
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (current_connection()->spoiled()) response.set_header("Connection", "close");
    if (!reply.pieces) {
      response.set_content(reply.body, reply.type);
      return;
    }
    response.set_header("Cache-Control", "no-cache");
    response.set_header("X-Accel-Buffering", "no");
    response.set_chunked_content_provider(
        reply.type, [pieces = std::move(reply.pieces)](std::size_t, httplib::DataSink& sink) {
          bool there = true;
          try {
            pieces([&](std::string_view piece) {
              there = there && sink.write(piece.data(), piece.size());
              return there;
            });
          } catch (const std::exception& error) {
            // Half an answer was sent: to end it properly would call it whole.
            std::fprintf(stderr, "serve: %s failed: %s\n", current_exchange().id.c_str(), error.what());
            there = false;
          }
          if (there) sink.done();
          return there;
        });
  }

  void log(const httplib::Request& request, const httplib::Response& response) {
    const Exchange& exchange = current_exchange();
    const double seconds = std::chrono::duration<double>(HttpClock::now() - exchange.begin).count();
    service_.count(exchange.endpoint, response.status, seconds);
    if (!options_.log) return;
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char when[32];
    std::strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const std::string line = fmt::format(
        "{} {} {} {} {} {:.3f}s {}\n", when, exchange.client, training::printable(request.method.substr(0, 16)),
        training::printable(request.path.substr(0, 200)), response.status, seconds, exchange.id);
    std::fputs(line.c_str(), stderr);
  }

  Service& service_;
  const HttpOptions options_;
  const Keys keys_;
  std::atomic<bool> stopping_ = false;
  socket_t listening_ = INVALID_SOCKET;
};

}  // namespace

struct HttpServer::Parts {
  Parts(Service& service, const HttpOptions& given) : options(given), http(service, given) {}
  const HttpOptions options;
  Http http;
  std::thread thread;
};

HttpServer::HttpServer(Service& service, const HttpOptions& options)
    : parts_(std::make_unique<Parts>(service, options)) {}

HttpServer::~HttpServer() { stop(); }

int HttpServer::start() {
  const auto& [host, port] = std::pair(parts_->options.host, parts_->options.port);
  errno = 0;
  const int got = port == 0 ? parts_->http.bind_to_any_port(host) : parts_->http.bind_to_port(host, port) ? port : -1;
  if (got < 0) {
    throw Error(
        fmt::format("cannot listen on {}:{}{}; another program may use the port: choose another one with --port", host,
                    port, errno == 0 ? "" : fmt::format(" ({})", std::strerror(errno))));
  }
  parts_->http.lengthen_backlog();
  parts_->thread = std::thread([this] { parts_->http.listen_after_bind(); });
  while (!parts_->http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return got;
}

void HttpServer::stop() {
  if (!parts_->thread.joinable()) return;
  parts_->http.end();
  parts_->thread.join();
}

}  // namespace etna::serve
