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

TEST(FuzzServe, ResponsesBodySurvivesDamage) {
  const std::string body =
      R"({"model":"tiny","instructions":"a","input":[{"role":"user","content":[{"type":"input_text","text":"\u00e9"}]})"
      R"(,{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output",)"
      R"("call_id":"1","output":"x"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],)"
      R"("tool_choice":"auto","temperature":0.5,"top_p":1,"max_output_tokens":7,"store":false,"stream":true,)"
      R"("text":{"format":{"type":"json_schema","name":"s","schema":{"a":[[[]]]}}},"metadata":{"a":"b"}})";
  const Damage result = damage(body, responses_body, 2, 2000);
  EXPECT_GT(result.tried, 4000u);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzServe, MessagesBodySurvivesDamage) {
  const std::string body =
      R"({"model":"tiny","max_tokens":7,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":)"
      R"([{"type":"text","text":"\u00e9"}]},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f",)"
      R"("input":{"a":[1,{}]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}],)"
      R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"temperature":0.5,)"
      R"("top_k":3,"stop_sequences":["a"],"thinking":{"type":"disabled"},"stream":true,"metadata":{"user_id":"u"}})";
  const Damage result = damage(body, messages_body, 2, 2000);
  EXPECT_GT(result.tried, 4000u);
  EXPECT_GT(result.refused, result.tried / 2);
}

TEST(FuzzServe, AnswersSurviveDamageHoweverTheyAreCut) {
  const std::string answers[] = {
      "\x11\x03<think>a</think>b<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"}\"}}\n</tool_call> c",
      "\x19\x05<tool_call><function=f><parameter=s>a</parameter><parameter=n>3</parameter></function></tool_call>",
      "\x02\x02<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": [1, 2]}}",
      "\x03\x07[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"add\", \"arguments\": {}}]",
      "\x03\x02[TOOL_CALLS]f[ARGS]{\"n\": 1}"};
  for (const std::string& answer : answers) {
    const Damage result = damage(answer, tool_answer, 1, 2000);
    EXPECT_GT(result.tried, 2000u);
    EXPECT_GT(result.refused, 100u);
  }
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
