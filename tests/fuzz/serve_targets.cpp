#include <cstdlib>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <etna/models/generator.h>
#include <etna/serve/api_error.h>
#include <etna/serve/chat_fields.h>
#include <etna/serve/http_server.h>
#include <fuzz/targets.h>

namespace etna::fuzz {
namespace {

/// A server of the smallest decoder, without a tokenizer.
class TinyServer {
 public:
  TinyServer()
      : decoder_(tiny_decoder()),
        generator_(*decoder_),
        engine_({{.name = "tiny", .decoder = decoder_.get(), .generator = &generator_, .context = 8}}),
        service(engine_),
        server_(service, {.port = 0, .idle_seconds = 1, .head_seconds = 1, .body_seconds = 1, .log = false}),
        port(server_.start()) {}
  TinyServer(const TinyServer&) = delete;

 private:
  std::unique_ptr<models::Decoder> decoder_;
  models::Generator generator_;
  serve::Engine engine_;

 public:
  serve::Service service;

 private:
  serve::HttpServer server_;

 public:
  const int port;
};

TinyServer& tiny_server() {
  static TinyServer server;
  return server;
}

}  // namespace

bool chat_body(const std::uint8_t* data, std::size_t size) try {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const serve::Json body = serve::parse_json(text);
  serve::Fields fields(body, "");
  serve::read_chat_request(fields, tiny_server().service);
  serve::read_stream_fields(fields);
  fields.finish();
  return true;
} catch (const serve::ApiError&) {
  return false;
}

bool http_request(const std::uint8_t* data, std::size_t size) {
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(tiny_server().port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connection < 0 || ::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  (void)::send(connection, data, size, MSG_NOSIGNAL);
  ::shutdown(connection, SHUT_WR);
  std::string reply;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::recv(connection, bytes, sizeof bytes, 0)) > 0;)
    reply.append(bytes, static_cast<std::size_t>(got));
  ::close(connection);
  return reply.starts_with("HTTP/1.1 200");
}

}  // namespace etna::fuzz
