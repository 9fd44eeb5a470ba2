#include <fuzz/damage.h>
#include <fuzz/targets.h>

// What reads the network, over damaged requests.
namespace etna::fuzz {
namespace {

TEST(FuzzServe, ChatBodySurvivesDamage) {
  const std::string body =
      R"({"model":"tiny","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text",)"
      R"("text":"\u00e9"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
      R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}],)"
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto",)"
      R"("temperature":0.5,"top_p":1,"n":2,"seed":-3,"stop":["a","b"],"logit_bias":{"3":-1.5},"logprobs":true,)"
      R"("top_logprobs":2,"max_tokens":7,"response_format":{"type":"json_schema","json_schema":{"name":"s",)"
      R"("schema":{"a":[[[]]]}}},"stream":true,"stream_options":{"include_usage":true},"user":"u"})";
  const Damage result = damage(body, chat_body, 2, 2000);
  EXPECT_GT(result.tried, 8000u);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzServe, HttpRequestsSurviveDamage) {
  const std::string request =
      "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\r\nAccept-Encoding: gzip\r\n\r\n"
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n"
      R"({"model":"tiny","prompt":[1,2],"max_tokens":2,"stream":true})";
  const Damage result = damage(request, http_request, 17, 300);
  EXPECT_GT(result.tried, 500u);
  EXPECT_GT(result.refused, 20u);
}

}  // namespace
}  // namespace etna::fuzz
