#include <cstdlib>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <etna/models/generator.h>
#include <etna/serve/answer_reader.h>
#include <etna/serve/api_error.h>
#include <etna/serve/chat_fields.h>
#include <etna/serve/http_server.h>
#include <etna/serve/messages_fields.h>
#include <etna/serve/responses_fields.h>
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

/// The events of an answer that comes in pieces of some length, their texts joined.
std::string events_in_pieces(const serve::AnswerReaderOptions& options, std::string_view text, std::size_t length) {
  serve::AnswerReader reader(options);
  std::vector<serve::AnswerEvent> events;
  for (std::size_t at = 0; at < text.size(); at += length) reader.read(text.substr(at, length), events);
  reader.finish(events);
  std::string joined, before;
  std::int64_t open = 0;
  for (const serve::AnswerEvent& event : events) {
    std::string kind = "\ntext ";
    if (event.kind == serve::EventKind::reasoning) kind = "\nreasoning ";
    if (event.kind == serve::EventKind::tool_call_arguments) kind = "\narguments ";
    if (event.kind == serve::EventKind::tool_call_begins) kind = "\nbegin " + event.tool_name + " ";
    if (event.kind == serve::EventKind::tool_call_ends) kind = "\nend ";
    open += event.kind == serve::EventKind::tool_call_begins ? 1 : 0;
    open -= event.kind == serve::EventKind::tool_call_ends ? 1 : 0;
    if (open < 0 || open > 1 || event.kind == serve::EventKind::finish) std::abort();
    if (kind != before || event.text.empty()) joined += kind;
    joined += event.text;
    before = kind;
  }
  return joined;
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

bool responses_body(const std::uint8_t* data, std::size_t size) try {
  const serve::Json body = serve::parse_json({reinterpret_cast<const char*>(data), size});
  serve::read_responses_request(body, tiny_server().service);
  return true;
} catch (const serve::ApiError&) {
  return false;
}

bool messages_body(const std::uint8_t* data, std::size_t size) try {
  const serve::Json body = serve::parse_json({reinterpret_cast<const char*>(data), size});
  serve::Fields fields(body, "");
  serve::ChatRequest request = serve::read_anthropic_chat(fields);
  serve::read_anthropic_options(fields, tiny_server().service, request);
  fields.flag_if("stream");
  fields.finish();
  return true;
} catch (const serve::ApiError&) {
  return false;
}

bool tool_answer(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return false;
  serve::AnswerReaderOptions options;
  options.syntax.calls = static_cast<serve::CallForm>((data[0] & 7) % 7);
  options.syntax.xml = (data[0] & 8) != 0;
  if ((data[0] & 16) != 0) {
    options.syntax.think_open = "<think>";
    options.syntax.think_close = "</think>";
    options.reasoning = (data[0] & 32) != 0;
  }
  options.tools = {{"f", "", R"({"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"}}})"},
                   {"add", "", ""}};
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string whole = events_in_pieces(options, text, text.size() + 1);
  if (whole != events_in_pieces(options, text, 1) || whole != events_in_pieces(options, text, 1 + data[1] % 16))
    std::abort();
  return whole.find("\nbegin ") != std::string::npos;
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
