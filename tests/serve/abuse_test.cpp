#include <atomic>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/serve_program.h"

// Clients that do wrong on purpose, against the running program, while others stream.
namespace etna::serve {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const char* const kPosts[] = {
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
    "/v1/embeddings",       "/v1/rerank",      "/tokenize",     "/detokenize",  "/apply-template",
    "/slots/save"};
const char* const kGets[] = {"/v1/models", "/v1/models/small", "/health", "/metrics", "/slots", "/endpoints", "/"};

std::string repeated(std::string_view text, int times) {
  std::string all;
  all.reserve(text.size() * static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class Abuse : public ServeProgram {
 protected:
  void SetUp() override {
    ServeProgram::SetUp();
    ASSERT_TRUE(start({"--parallel", "4"})) << errors();
    files_at_start_ = files();
  }
  std::string send(const std::string& bytes, bool end = true) const {
    const RawConnection connection(port_);
    connection.send(bytes);
    if (end) connection.end_sending();
    return connection.receive();
  }
  std::string post_raw(const std::string& path, const std::string& body) const {
    const RawConnection connection(port_);
    // Not half-closed: the server may take that for a client that went away, if the answer takes longer.
    connection.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                    "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                    body);
    return connection.receive();
  }
  /// Bytes of memory and open files of the program.
  std::int64_t resident() const {
    std::ifstream file("/proc/" + std::to_string(process_) + "/statm");
    std::int64_t size = 0, pages = 0;
    file >> size >> pages;
    return pages * 4096;
  }
  std::int64_t files() const {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(process_) + "/fd");
    return std::distance(std::filesystem::begin(all), std::filesystem::end(all));
  }

  void leave_streams() const {
    for (int i = 0; i < 4; ++i) {
      const RawConnection connection(port_);
      connection.post("/v1/completions", stream(4000));
      connection.receive("data: ");
    }
  }
  void break_json() const {
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    for (const char* path : kPosts) {
      const std::string cut = R"({"model": "small", "input": )";
      for (const std::string& body :
           {std::string(), std::string("\xff\xfe{}"), std::string("{\"model\": \"\xc3\x28\"}"), cut, cut + deep + "}",
            repeated("{\"a\":", 100'000), std::string("[]"), std::string("null"), std::string("1e999"),
            std::string("{\"model\": \"\\ud800\"}"), std::string("{\"model\": \"small\", \"nope\": \"\\u0000\"}"),
            std::string(1, '\0'), std::string("{\"max_tokens\": 1e400}")}) {
        EXPECT_THAT(post_raw(path, body), StartsWith("HTTP/1.1 400")) << path << ": " << body.substr(0, 60);
      }
    }
  }
  void send_too_much() const {
    const RawConnection body(port_);
    body.send("POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n");
    const std::string megabyte(1 << 20, ' ');
    for (int i = 0; i < 100 && body.send(megabyte); ++i) {}
    EXPECT_THAT(body.receive(), StartsWith("HTTP/1.1 413"));
    std::string headers = "GET /health HTTP/1.1\r\n";
    for (int i = 0; i < 10'000; ++i) headers += "X-" + std::to_string(i) + ": 1\r\n";
    EXPECT_THAT(send(headers + "\r\n"), StartsWith("HTTP/1.1 431"));
    EXPECT_THAT(send("GET /health HTTP/1.1\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n"),
                StartsWith("HTTP/1.1 431"));
    EXPECT_THAT(send("GET /" + std::string(1 << 20, 'x') + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 4"));
  }
  /// Schemas and grammars that recurse or explode: each is refused, or answered, in time.
  void ask_for_impossible_forms() const {
    const auto chat = [](const char* field, const std::string& value) {
      return std::string(R"({"model":"small","max_tokens":20,"messages":[{"role":"user","content":"a"}],")") + field +
             "\":" + value + "}";
    };
    const auto schema = [&](const std::string& text) {
      return chat("response_format", R"({"type":"json_schema","json_schema":{"name":"s","schema":)" + text + "}}");
    };
    std::string numbers = "0";
    for (int i = 1; i < 1'000'000; ++i) numbers += "," + std::to_string(i);
    std::string powers = R"({"$ref":"#/$defs/a0","$defs":{)";
    for (int i = 0; i < 60; ++i) {
      const std::string next = R"({"$ref":"#/$defs/a)" + std::to_string(i + 1) + "\"}";
      powers += "\"a" + std::to_string(i) + R"(":{"type":"array","prefixItems":[)" + next + "," + next +
                R"(],"items":false,"minItems":2},)";
    }
    powers += R"("a60":{"type":"null"}}})";
    for (const std::string& body :
         {schema(R"({"$ref":"#"})"),
          schema(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})"),
          schema(R"({"allOf":[{"$ref":"#"}]})"),
          schema(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
          schema("{\"enum\":[" + numbers + "]}"), schema(powers), schema(R"({"type":"string","minLength":1000000000})"),
          schema(R"({"type":"array","items":{},"minItems":1000000000})"), schema(R"({"not":{}})"),
          schema(R"({"type":"string","pattern":"(a{1000}){1000}"})"), schema(R"({"$ref":"http://127.0.0.1/x"})"),
          chat("regex", R"("(a{1000}){1000}")"), chat("regex", R"("((((a*)*)*)*)*b{99999}")"),
          chat("regex", "\"" + std::string(50'000, '(') + "\""),
          chat("grammar", R"("root ::= root root | \"a\"{1000000}")"),
          chat("grammar", R"("root ::= a\na ::= b\nb ::= a")"),
          chat("grammar", "\"root ::= " + std::string(50'000, '(') + "\"")}) {
      const auto begin = std::chrono::steady_clock::now();
      const std::string reply = post_raw("/v1/chat/completions", body);
      // Counters make some of them small.
      EXPECT_THAT(reply, AnyOf(StartsWith("HTTP/1.1 400"), StartsWith("HTTP/1.1 200"))) << body.substr(80, 160);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << body.substr(80, 160);
    }
  }
  /// Requests that two readers of HTTP could take for different ones: never a second reply, nothing after them is read.
  void smuggle() const {
    const std::string hidden = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const std::string head = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    const std::string text = R"({"content": "a"})", size = std::to_string(text.size());
    for (const std::string& fields :
         {"Content-Length: " + size + "\r\nContent-Length: 0\r\n",
          "Content-Length: 0\r\nContent-Length: " + size + "\r\n", "Content-Length: " + size + ", " + size + "\r\n",
          std::string("Content-Length: +5\r\n"), std::string("Content-Length: 0x10\r\n"),
          std::string("Content-Length: -1\r\n"), std::string("Content-Length:\r\n"),
          std::string("Content-Length: 1 6\r\n"), "Content-Length : " + size + "\r\n",
          " Content-Length: " + size + "\r\n", "Content-Length: " + size + "\r\nTransfer-Encoding: chunked\r\n",
          std::string("Transfer-Encoding: xchunked\r\n"), std::string("Transfer-Encoding: gzip, chunked\r\n"),
          std::string("Transfer-Encoding: identity\r\n"),
          std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
          std::string("Transfer-Encoding : chunked\r\n"), std::string("X\0: a\r\n", 7),
          std::string("X: a\rContent-Length: 3\r\n")}) {
      const std::string reply = send(head + fields + "\r\n" + text + hidden);
      EXPECT_LE(count_of(reply, "HTTP/1.1 "), 1u) << fields << reply;
      EXPECT_THAT(reply, AnyOf("", StartsWith("HTTP/1.1 4"), StartsWith("HTTP/1.1 501"))) << fields;
      EXPECT_THAT(reply, Not(HasSubstr("\"object\":\"list\""))) << fields;
    }
    const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
    for (const std::string& body :
         {std::string("-1\r\n") + text + "\r\n0\r\n\r\n", std::string("zz\r\n"),
          std::string("ffffffffffffffff\r\n") + text, std::string("fffffffffffffffffffffff\r\n") + text,
          "10\n" + text + "\n0\n\n", "4\r\n" + text + "\r\n0\r\n\r\n", "10 \r\n" + text,
          "0x10\r\n" + text + "\r\n0\r\n\r\n", std::string("\r\n"), "10;a=b\r\n" + text + "\r\n0\r\n\r\n"}) {
      const std::string reply = send(chunked + body + hidden);
      EXPECT_LE(count_of(reply, "HTTP/1.1 "), 1u) << body << reply;
      EXPECT_THAT(reply, Not(HasSubstr("\"object\":\"list\""))) << body;
    }
    EXPECT_THAT(send(chunked + "10\r\n" + text + "\r\n0\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  }
  void use_other_methods() const {
    for (const char* method : {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW"}) {
      const auto ask = [&](const std::string& path) {
        return send(std::string(method) + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
      };
      const std::string name = method;
      for (const char* path : kPosts) EXPECT_THAT(ask(path), StartsWith("HTTP/1.1 4")) << method << path;
      for (const char* path : kGets) {
        const std::string reply = ask(path);
        const bool reads = name == "GET" || name == "HEAD";
        EXPECT_THAT(reply, StartsWith(reads ? "HTTP/1.1 200" : "HTTP/1.1 4")) << method << path;
        if (name == "HEAD") {
          EXPECT_THAT(reply, testing::EndsWith("\r\n\r\n")) << path;
        }
      }
    }
    for (const char* path :
         {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/v1/models/../../etc/passwd",
          "/v1/models/%00", "/v1/models/%ff", "/%", "/%zz", "/v1/models/%2e%2e%2f", "*", "etc/passwd",
          "http://evil.example/v1/models", "/health/", "/HEALTH", "/\\..\\..\\x"}) {
      const std::string reply = send(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
      EXPECT_THAT(reply, AnyOf("", StartsWith("HTTP/1.1 4"))) << path;
      EXPECT_THAT(reply, Not(HasSubstr("root:"))) << path;
    }
  }
  void speak_old_and_many() const {
    EXPECT_THAT(send("GET /health HTTP/1.0\r\n\r\n", false), testing::ContainsRegex("^HTTP/1\\.[01] 200"))
        << "and the connection ends";
    const std::string request = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    EXPECT_EQ(count_of(send(repeated(request, 20)), "HTTP/1.1 200"), 20u) << "pipelined";
    const std::string body = R"({"content": "a"})";
    const std::string post =
        "POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    EXPECT_EQ(count_of(send(repeated(post + request, 5)), "HTTP/1.1 200"), 10u) << "pipelined";
  }

  void do_everything() const {
    leave_streams();
    break_json();
    send_too_much();
    ask_for_impossible_forms();
    smuggle();
    use_other_methods();
    speak_old_and_many();
  }

  std::int64_t files_at_start_ = 0;
};

TEST_F(Abuse, HurtsNobodyElseAndLeavesNothing) {
  std::atomic<bool> done = false;
  std::atomic<int> whole = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!done) {
        const auto result =
            httplib::Client("127.0.0.1", port_).Post("/v1/completions", stream(100), "application/json");
        const bool fine = result && result->status == 200 && result->body.ends_with("data: [DONE]\n\n") &&
                          result->body.find("\"error\"") == std::string::npos;
        EXPECT_TRUE(fine) << (result ? result->body.substr(0, 500) : httplib::to_string(result.error()));
        whole += fine ? 1 : 0;
      }
    });
  }
  std::int64_t memory_before = 0;
  const char* more = std::getenv("ETNA_ABUSE");
  const int rounds = more != nullptr ? std::atoi(more) : 4;
  for (int round = 0; round < rounds; ++round) {
    if (more != nullptr) std::fprintf(stderr, "round %d: %lld MiB\n", round, static_cast<long long>(resident() >> 20));
    if (round == 2) {
      ASSERT_TRUE(
          soon([&] { return Json::parse(httplib::Client("127.0.0.1", port_).Get("/health")->body)["running"] <= 2; }));
      memory_before = resident();
    }
    {
      // Half-open all the while.
      std::vector<std::unique_ptr<RawConnection>> slow;
      for (int i = 0; i < 60; ++i) {
        slow.push_back(std::make_unique<RawConnection>(port_));
        slow.back()->send(
            i % 2 == 0 ? "GET /health HT"
                       : "POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{");
      }
      const RawConnection reader(port_);  // reads nothing
      reader.post("/v1/completions", stream(4000));
      do_everything();
    }
    if (HasFailure()) break;
  }
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT_GT(whole, 10);
  RecordProperty("whole", whole);
  RecordProperty("memory_mib", static_cast<int>((resident() - memory_before) >> 20));
#ifndef __SANITIZE_ADDRESS__  // which keeps what is freed for a while
  EXPECT_LT(resident() - memory_before, 16 << 20);
#endif
  EXPECT_TRUE(soon([&] {
    const auto health = httplib::Client("127.0.0.1", port_).Get("/health");
    return health && Json::parse(health->body)["running"] == 0 && files() <= files_at_start_ + 1;
  })) << files()
      << " files are open, " << files_at_start_ << " at the start";
  EXPECT_EQ(end(SIGTERM), 0) << errors();
}

}  // namespace
}  // namespace etna::serve
