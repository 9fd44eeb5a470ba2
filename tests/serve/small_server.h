#pragma once

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

// What follows includes <resolv.h> of libc, which has a macro of this name.
#include <httplib.h>

#include <etna/models/generator.h>
#include <etna/serve/engine.h>
#include <etna/serve/http_server.h>
#include <etna/serve/json_text.h>
#include <etna/serve/service.h>

#include "models/small_models.h"
#include "models/some_tokenizer.h"

/// A small random model that is served.
namespace etna::serve {

struct SmallModel {
  /// @param inner the width of its feed-forward layers; 0: that of small_config()
  explicit SmallModel(std::int64_t slots = 2, std::int64_t context = 4096, std::int64_t inner = 0)
      : tokenizer(some_tokenizer()) {
    models::DecoderConfig config = models::small_config("llama");
    if (inner > 0) config.feed_forward = inner;
    config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
    config.context = context;
    decoder = models::small_model(config);
    decoder->eval();
    generator = std::make_unique<models::Generator>(
        *decoder, models::GeneratorOptions{.slots = slots, .cache = {.tokens = slots * context}});
    served = {"small", decoder.get(), generator.get(), &tokenizer, kCPU, slots, context};
  }

  data::ModelTokenizer tokenizer;
  std::unique_ptr<models::Decoder> decoder;
  std::unique_ptr<models::Generator> generator;
  ServedModel served;
};

/// Greedy, and not ended by a token.
inline SequenceRequest some_sequence(std::int64_t max_tokens, std::vector<std::int32_t> prompt = {1, 260, 261}) {
  SequenceRequest request{std::move(prompt), {.max_tokens = max_tokens}};
  request.options.sampling.temperature = 0;
  return request;
}
inline Job some_job(std::int64_t max_tokens, const std::string& client = "a") {
  Job job{0, {}, client};
  job.sequences.push_back(some_sequence(max_tokens));
  return job;
}

/// The texts of an answer, and how it ended.
struct Answered {
  std::string text;
  AnswerEvent finish;
};
inline Answered answer_of(EventSource& source) {
  Answered answered;
  while (!source.ended()) {
    const std::optional<AnswerEvent> event = source.next(std::chrono::seconds(1));
    if (!event) continue;
    answered.text += event->text;
    if (event->kind == EventKind::finish) answered.finish = *event;
  }
  return answered;
}

/// Whether something becomes true within ten seconds.
template <typename Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// A server of the small model in this process.
struct SmallServer {
  explicit SmallServer(HttpOptions options = {}, EngineOptions engine_options = {}, ServiceOptions service_options = {},
                       std::int64_t slots = 2)
      : model(slots), engine({model.served}, engine_options), service(engine, with_chat(std::move(service_options))) {
    options.port = 0;
    options.log = false;
    server = std::make_unique<HttpServer>(service, options);
    port = server->start();
  }
  ~SmallServer() { server->stop(); }

  static ServiceOptions with_chat(ServiceOptions options) {
    options.chat_format = "chatml";
    return options;
  }
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port);
    client.set_read_timeout(60);
    client.set_write_timeout(60);
    return client;
  }
  httplib::Result post(const std::string& path, const std::string& body) const {
    return client().Post(path, body, "application/json");
  }
  /// The reply's status and JSON. An invalid reply is a failure.
  std::pair<int, Json> ask(const std::string& path, const Json& body) const { return read(post(path, body.dump())); }
  std::pair<int, Json> get(const std::string& path) const { return read(client().Get(path)); }
  static std::pair<int, Json> read(const httplib::Result& result) {
    if (!result) {
      ADD_FAILURE() << "no reply: " << httplib::to_string(result.error());
      return {0, {}};
    }
    return {result->status, Json::parse(result->body, nullptr, false)};
  }
  bool idle() const {
    return soon([&] { return engine.idle(); });
  }

  SmallModel model;
  Engine engine;
  Service service;
  std::unique_ptr<HttpServer> server;
  int port = 0;
};

/// A connection without a library, for what no library sends.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    timeval wait{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  }
  ~RawConnection() { close(); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void end_sending() const { ::shutdown(socket_, SHUT_WR); }
  /// @return whether all of it was taken
  bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool post(const std::string& path, const std::string& body) const {
    return send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  /// What comes until the end, or until it contains a text.
  std::string receive(std::string_view until = {}) const {
    std::string text;
    char bytes[4096];
    while (until.empty() || text.find(until) == std::string::npos) {
      const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      text.append(bytes, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int socket_;
};

}  // namespace etna::serve
