#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/script_model.h"
#include "serve/small_server.h"

namespace {

using namespace etna::serve;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A server of a model that says these pieces.
struct ScriptServer {
  explicit ScriptServer(const std::vector<std::string>& script, const std::string& chat_template = "chatml")
      : model(script, chat_template), engine({model.served}), service(engine) {
    HttpOptions options;
    options.port = 0;
    options.log = false;
    server = std::make_unique<HttpServer>(service, options);
    port = server->start();
  }
  ~ScriptServer() { server->stop(); }

  httplib::Result post(const std::string& path, const Json& body) const {
    httplib::Client client("127.0.0.1", port);
    client.set_read_timeout(60);
    return client.Post(path, body.dump(), "application/json");
  }
  Json ask(const std::string& path, const Json& body, int status = 200) const {
    const httplib::Result result = post(path, body);
    if (!result) {
      ADD_FAILURE() << "no reply";
      return {};
    }
    EXPECT_EQ(result->status, status) << result->body;
    return Json::parse(result->body, nullptr, false);
  }
  /// The data of all events, in order.
  std::vector<Json> events(const std::string& path, Json body) const {
    body["stream"] = true;
    const httplib::Result result = post(path, body);
    std::vector<Json> all;
    if (!result) ADD_FAILURE() << "no reply";
    const std::string text = result ? result->body : "";
    std::string name;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      if (line.starts_with("event: ")) name = line.substr(7);
      if (line.starts_with("data: ") && line != "data: [DONE]") {
        all.push_back(Json::parse(line.substr(6)));
        EXPECT_TRUE(name.empty() || all.back()["type"] == name) << line;
      }
      at = end + 1;
    }
    return all;
  }

  ScriptModel model;
  Engine engine;
  Service service;
  std::unique_ptr<HttpServer> server;
  int port = 0;
};

const std::vector<std::string> kCallScript{"<think>",
                                           "\nRome, ",
                                           "then.",
                                           "</think>\n",
                                           "Let me see.",
                                           "\n<tool_call>",
                                           "{\"name\": \"get_weather\", ",
                                           "\"arguments\": {\"ci",
                                           "ty\": \"Rome\"}",
                                           "}\n",
                                           "</tool_call>"};
/// chatml with reasoning: the name of the format stands for its markup.
const char* const kThinkTemplate =
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}"
    "{%- if tools %}{{ tools | tojson }}<tool_call>{% endif %}"
    "{{ '<|im_start|>assistant\\n' }}{# <think></think> enable_thinking #}";

Json openai_tool(bool strict = false) {
  return {{"type", "function"},
          {"function",
           {{"name", "get_weather"},
            {"description", "The weather of a city."},
            {"strict", strict},
            {"parameters",
             {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}, {"required", {"city"}}}}}}};
}

Json chat_with_tools() {
  return {{"model", "script"},
          {"temperature", 0},
          {"messages", Json::array({{{"role", "user"}, {"content", "Weather in Rome?"}}})},
          {"tools", Json::array({openai_tool()})}};
}

TEST(ServedTools, ChatCompletionsReportCallsAndReasoning) {
  const ScriptServer server(kCallScript, kThinkTemplate);
  const Json choice = server.ask("/v1/chat/completions", chat_with_tools())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Rome, then.");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const Json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>()), Json({{"city", "Rome"}}));
  EXPECT_THAT(call["id"].get<std::string>(), ::testing::StartsWith("call_"));

  std::string reasoning, content, arguments, name, finish;
  for (const Json& chunk : server.events("/v1/chat/completions", chat_with_tools())) {
    const Json delta = chunk["choices"][0]["delta"];
    if (delta.contains("reasoning_content")) reasoning += delta["reasoning_content"].get<std::string>();
    if (delta.contains("content")) content += delta["content"].get<std::string>();
    if (!chunk["choices"][0]["finish_reason"].is_null()) finish = chunk["choices"][0]["finish_reason"];
    if (!delta.contains("tool_calls")) continue;
    EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
    const Json function = delta["tool_calls"][0]["function"];
    if (function.contains("name")) name += function["name"].get<std::string>();
    arguments += function["arguments"].get<std::string>();
  }
  EXPECT_EQ(reasoning, "Rome, then.");
  EXPECT_EQ(content, "Let me see.");
  EXPECT_EQ(name, "get_weather");
  EXPECT_EQ(arguments, "{\"city\": \"Rome\"}");
  EXPECT_EQ(finish, "tool_calls");
}

TEST(ServedTools, LengthInTheMiddleOfACallIsLength) {
  const ScriptServer server(kCallScript, kThinkTemplate);
  Json request = chat_with_tools();
  request["max_tokens"] = 8;
  const Json choice = server.ask("/v1/chat/completions", request)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"ci");
}

TEST(ServedTools, ResultsGoBackToTheModel) {
  const ScriptServer server({"Sun", "ny."}, "chatml");
  Json request = chat_with_tools();
  request["messages"].push_back(
      {{"role", "assistant"},
       {"content", nullptr},
       {"tool_calls", Json::array({{{"id", "call_1"},
                                    {"type", "function"},
                                    {"function", {{"name", "get_weather"}, {"arguments", "{\"city\":\"Rome\"}"}}}}})}});
  request["messages"].push_back({{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "sunny"}});
  const Json choice = server.ask("/v1/chat/completions", request)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Sunny.");
  EXPECT_EQ(choice["finish_reason"], "stop");
  request.erase("temperature");
  const Json prompt = server.ask("/apply-template", {{"messages", request["messages"]}, {"tools", request["tools"]}});
  EXPECT_THAT(prompt["prompt"].get<std::string>(), HasSubstr("<tool_response>\nsunny\n</tool_response>"));
}

TEST(ServedTools, ReasoningBudgetClosesReasoning) {
  std::vector<std::string> script{"<think>"};
  for (int i = 0; i < 40; ++i) script.push_back("thought " + std::to_string(i) + " ");
  const ScriptServer server(script, kThinkTemplate);
  Json request = chat_with_tools();
  request.erase("tools");
  request["reasoning_budget"] = 30;
  request["max_tokens"] = 60;
  const Json reply = server.ask("/v1/chat/completions", request);
  const Json message = reply["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "thought 0 thought 1 thought 2") << "a byte of this text is a token";
  EXPECT_THAT(message["content"].get<std::string>(), ::testing::StartsWith("<think>thought 0 thought 1"))
      << "the script begins anew, behind closed reasoning";
  EXPECT_LE(reply["usage"]["completion_tokens"], 60);
}

/// The model would say something else; the grammar of the call leaves it one way.
TEST(ServedTools, RequiredCallsValidate) {
  const ScriptServer server({"Hello, ", "world"}, kThinkTemplate);
  Json request = chat_with_tools();
  Json tool = openai_tool(true);
  tool["function"]["parameters"]["properties"]["city"] = {{"enum", {"Rome"}}};
  tool["function"]["parameters"]["additionalProperties"] = false;
  request["tools"] = Json::array({tool});
  request["max_tokens"] = 200;
  for (const Json& choice : {Json("required"), Json({{"type", "function"}, {"function", {{"name", "get_weather"}}}})}) {
    request["tool_choice"] = choice;
    const Json reply = server.ask("/v1/chat/completions", request)["choices"][0];
    EXPECT_EQ(reply["finish_reason"], "tool_calls");
    ASSERT_EQ(reply["message"]["tool_calls"].size(), 1u);
    const Json function = reply["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], "get_weather");
    EXPECT_EQ(Json::parse(function["arguments"].get<std::string>()), Json({{"city", "Rome"}}));
  }
  request["tool_choice"] = "none";
  EXPECT_EQ(server.ask("/v1/chat/completions", request)["choices"][0]["message"]["content"], "Hello, world");
  request["tool_choice"] = "required";
  request["response_format"] = {{"type", "json_object"}};
  EXPECT_EQ(server.ask("/v1/chat/completions", request, 400)["error"]["param"], "tool_choice");
}

/// The same in tags.
TEST(ServedTools, RequiredCallsInTagsValidate) {
  const ScriptServer server({"Hello, ", "world"}, std::string(kThinkTemplate) + "{# <function= #}");
  Json request = chat_with_tools();
  Json tool = openai_tool();
  tool["function"]["parameters"]["properties"] = {{"city", {{"type", "string"}, {"enum", {"Rome"}}}},
                                                  {"days", {{"const", 3}}}};
  tool["function"]["parameters"]["required"] = {"city", "days"};
  request["tools"] = Json::array({tool});
  request["tool_choice"] = "required";
  request["max_tokens"] = 200;
  const Json reply = server.ask("/v1/chat/completions", request)["choices"][0];
  EXPECT_EQ(reply["finish_reason"], "tool_calls");
  ASSERT_EQ(reply["message"]["tool_calls"].size(), 1u) << reply;
  EXPECT_EQ(Json::parse(reply["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            Json({{"city", "Rome"}, {"days", 3}}));

  request["tools"][0]["function"]["parameters"]["properties"]["city"] = {{"type", "string"}, {"minLength", 3}};
  const Json error = server.ask("/v1/chat/completions", request, 400)["error"];
  EXPECT_EQ(error["param"], "tools");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("the text 'city' has 'minLength'"));
}

/// Its strict tool takes no city but Rome.
Json strict_request_for_rome() {
  Json request = chat_with_tools();
  Json tool = openai_tool(true);
  tool["function"]["parameters"]["properties"]["city"] = {{"enum", {"Rome"}}};
  tool["function"]["parameters"]["additionalProperties"] = false;
  request["tools"] = Json::array({tool});
  request["max_tokens"] = 100;
  return request;
}

/// Text is free, and so is whether a call comes; its arguments are not.
TEST(ServedTools, StrictCallsValidateAlsoByChoice) {
  Json request = strict_request_for_rome();
  const ScriptServer right(kCallScript, kThinkTemplate), free({"Hello, ", "world"}, kThinkTemplate),
      wrong({"I ask.\n", "<tool_call>", "{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ", "\"Paris\"}}"},
            kThinkTemplate);
  const Json called = right.ask("/v1/chat/completions", request)["choices"][0];
  EXPECT_EQ(called["finish_reason"], "tool_calls");
  EXPECT_EQ(called["message"]["reasoning_content"], "Rome, then.");
  EXPECT_EQ(called["message"]["content"], "Let me see.");
  EXPECT_EQ(free.ask("/v1/chat/completions", request)["choices"][0]["message"]["content"], "Hello, world");
  const Json corrected = wrong.ask("/v1/chat/completions", request)["choices"][0]["message"];
  EXPECT_EQ(corrected["content"].get<std::string>().substr(0, 6), "I ask.");
  ASSERT_EQ(corrected["tool_calls"].size(), 1u) << corrected;
  EXPECT_EQ(Json::parse(corrected["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            Json({{"city", "Rome"}}));
  request["tools"][0]["function"]["strict"] = false;
  const Json lax = wrong.ask("/v1/chat/completions", request)["choices"][0]["message"];
  EXPECT_EQ(Json::parse(lax["tool_calls"][0]["function"]["arguments"].get<std::string>()), Json({{"city", "Paris"}}));

  request["tools"][0]["function"]["strict"] = true;
  request["response_format"] = {{"type", "json_object"}};
  EXPECT_EQ(right.ask("/v1/chat/completions", request, 400)["error"]["param"], "tools");
}

TEST(ServedTools, StrictCallsByChoiceOfLlamaAndGraniteValidate) {
  Json request = strict_request_for_rome();
  const std::string granite =
      "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}"
      "{%- if tools %}{{ tools | tojson }}<|tool_call|>{% endif %}{{ '<|im_start|>assistant\\n' }}";
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"llama3", {"{\"name\": \"get_weather\", ", "\"parameters\": {\"city\": ", "\"Paris\"}}"}},
      {"llama3", {"Let me see. <|python_tag|>", "{\"name\": \"get_weather\", \"parameters\": {\"city\": ", "7}}"}},
      {granite, {"<|tool_call|>", "[{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ", "\"Paris\"}}]"}},
      {granite, {"Hm. <tool_call>", "{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ", "\"Paris\"}}"}}};
  for (const auto& [format, script] : wrong) {
    const ScriptServer server(script, format);
    const Json message = server.ask("/v1/chat/completions", request)["choices"][0]["message"];
    ASSERT_EQ(message["tool_calls"].size(), 1u) << message;
    EXPECT_EQ(Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()),
              Json({{"city", "Rome"}}));
    const ScriptServer free({"Hello, ", "{\"x\": 1}"}, format);
    EXPECT_EQ(free.ask("/v1/chat/completions", request)["choices"][0]["message"]["content"], "Hello, {\"x\": 1}");
  }
}

TEST(ServedTools, UnsupportedWishesAreRefusedByName) {
  const ScriptServer server({"Hi"}, "vicuna");
  EXPECT_EQ(server.ask("/v1/chat/completions", chat_with_tools(), 400)["error"]["param"], "tools");
  const ScriptServer tools({"Hi"}, "chatml");
  Json request = chat_with_tools();
  request["tools"] = Json::array({openai_tool(true)});
  request["tools"][0]["function"]["parameters"] = {{"not", Json::object()}};
  EXPECT_EQ(tools.ask("/v1/chat/completions", request, 400)["error"]["param"], "tools");
  request = chat_with_tools();
  request["reasoning_budget"] = 5;
  EXPECT_EQ(tools.ask("/v1/chat/completions", request, 400)["error"]["param"], "reasoning_budget");
  request = chat_with_tools();
  request["chat_template_kwargs"] = {{"nonsense", 1}};
  EXPECT_EQ(tools.ask("/v1/chat/completions", request, 400)["error"]["param"], "chat_template_kwargs.nonsense");
}

std::vector<std::string> types_of(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events)
    if (types.empty() || types.back() != event["type"].get<std::string>()) types.push_back(event["type"]);
  return types;
}

Json responses_request() {
  Json tool = openai_tool()["function"];
  tool["type"] = "function";
  return {{"model", "script"}, {"temperature", 0}, {"input", "Weather in Rome?"}, {"tools", Json::array({tool})}};
}

TEST(Responses, HaveItemsForReasoningTextAndCalls) {
  const ScriptServer server(kCallScript, kThinkTemplate);
  const Json reply = server.ask("/v1/responses", responses_request());
  EXPECT_EQ(reply["status"], "completed");
  ASSERT_EQ(reply["output"].size(), 3u);
  EXPECT_EQ(reply["output"][0]["content"][0]["text"], "Rome, then.");
  EXPECT_EQ(reply["output"][1]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(reply["output"][2]["type"], "function_call");
  EXPECT_EQ(reply["output"][2]["arguments"], "{\"city\": \"Rome\"}");
  EXPECT_GT(reply["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST(Responses, StreamTheirEventsInOrder) {
  const ScriptServer server(kCallScript, kThinkTemplate);
  const std::vector<Json> events = server.events("/v1/responses", responses_request());
  EXPECT_THAT(types_of(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.content_part.added", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  const Json last = events.back()["response"];
  EXPECT_EQ(last["output"].size(), 3u);
  EXPECT_EQ(last["output"][2]["name"], "get_weather");
}

TEST(Responses, TakeItemsBackAndRefuseStorage) {
  const ScriptServer server({"Sun", "ny."}, "chatml");
  Json request = responses_request();
  request["input"] = Json::array(
      {{{"role", "user"}, {"content", "Weather?"}},
       {{"type", "reasoning"}, {"id", "rs_1"}, {"summary", Json::array()}},
       {{"type", "function_call"}, {"call_id", "c1"}, {"name", "get_weather"}, {"arguments", "{\"city\":\"Rome\"}"}},
       {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "sunny"}}});
  EXPECT_EQ(server.ask("/v1/responses", request)["output"][0]["content"][0]["text"], "Sunny.");
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{{"previous_response_id", "resp_1"},
                                                                             {"store", true},
                                                                             {"background", true},
                                                                             {"nonsense", 1},
                                                                             {"truncation", "auto"}}) {
    Json wrong = responses_request();
    wrong[name] = value;
    const Json error = server.ask("/v1/responses", wrong, 400)["error"];
    EXPECT_EQ(error["param"], name);
  }
}

Json messages_request() {
  Json tool = openai_tool()["function"];
  return {{"model", "script"},
          {"max_tokens", 100},
          {"temperature", 0},
          {"messages", Json::array({{{"role", "user"}, {"content", "Weather in Rome?"}}})},
          {"tools", Json::array({{{"name", "get_weather"}, {"input_schema", tool["parameters"]}}})}};
}

TEST(Messages, HaveBlocksForThinkingTextAndUse) {
  const ScriptServer server(kCallScript, kThinkTemplate);
  const Json reply = server.ask("/v1/messages", messages_request());
  EXPECT_EQ(reply["type"], "message");
  EXPECT_EQ(reply["stop_reason"], "tool_use");
  ASSERT_EQ(reply["content"].size(), 3u);
  EXPECT_EQ(reply["content"][0]["thinking"], "Rome, then.");
  EXPECT_EQ(reply["content"][1]["text"], "Let me see.");
  EXPECT_EQ(reply["content"][2]["input"], Json({{"city", "Rome"}}));
  EXPECT_GT(reply["usage"]["output_tokens"], 0);
}

TEST(Messages, StreamTheirEventsInOrder) {
  const ScriptServer server(kCallScript, kThinkTemplate);
  const std::vector<Json> events = server.events("/v1/messages", messages_request());
  EXPECT_THAT(types_of(events),
              ElementsAre("message_start", "ping", "content_block_start", "content_block_delta", "content_block_stop",
                          "content_block_start", "content_block_delta", "content_block_stop", "content_block_start",
                          "content_block_delta", "content_block_stop", "message_delta", "message_stop"));
  std::string json;
  for (const Json& event : events)
    if (event["type"] == "content_block_delta" && event["delta"]["type"] == "input_json_delta")
      json += event["delta"]["partial_json"].get<std::string>();
  EXPECT_EQ(Json::parse(json), Json({{"city", "Rome"}}));
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "tool_use");
}

TEST(Messages, TakeBlocksBackAndCountTokens) {
  const ScriptServer server({"Sun", "ny."}, "chatml");
  Json request = messages_request();
  request["system"] = Json::array({{{"type", "text"}, {"text", "Be kind."}}});
  request["messages"].push_back(
      {{"role", "assistant"},
       {"content",
        Json::array({{{"type", "thinking"}, {"thinking", "Hm."}, {"signature", ""}},
                     {{"type", "tool_use"}, {"id", "t1"}, {"name", "get_weather"}, {"input", {{"city", "Rome"}}}}})}});
  request["messages"].push_back(
      {{"role", "user"},
       {"content", Json::array({{{"type", "tool_result"}, {"tool_use_id", "t1"}, {"content", "sunny"}},
                                {{"type", "text"}, {"text", "And?"}}})}});
  const Json reply = server.ask("/v1/messages", request);
  EXPECT_EQ(reply["content"][0]["text"], "Sunny.");
  EXPECT_EQ(reply["stop_reason"], "end_turn");
  Json counted = request;
  counted.erase("max_tokens");
  counted.erase("temperature");
  const std::int64_t tokens = server.ask("/v1/messages/count_tokens", counted)["input_tokens"];
  EXPECT_EQ(tokens, reply["usage"]["input_tokens"].get<std::int64_t>() +
                        reply["usage"]["cache_read_input_tokens"].get<std::int64_t>());
}

TEST(Messages, StopSequencesAreNamed) {
  const ScriptServer server({"One, ", "two, ", "three"}, "chatml");
  Json request = messages_request();
  request["stop_sequences"] = {"two"};
  const Json reply = server.ask("/v1/messages", request);
  EXPECT_EQ(reply["stop_reason"], "stop_sequence");
  EXPECT_EQ(reply["stop_sequence"], "two");
  EXPECT_EQ(reply["content"][0]["text"], "One, ");
}

TEST(Messages, ErrorsHaveAnthropicsForm) {
  const ScriptServer server({"Hi"}, "chatml");
  Json request = messages_request();
  request.erase("max_tokens");
  Json error = server.ask("/v1/messages", request, 400);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
  EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr("max_tokens"));
  request = messages_request();
  request["model"] = "nobody";
  EXPECT_EQ(server.ask("/v1/messages", request, 404)["error"]["type"], "not_found_error");
  request = messages_request();
  request["nonsense"] = 1;
  EXPECT_THAT(server.ask("/v1/messages", request, 400)["error"]["message"].get<std::string>(), HasSubstr("nonsense"));
  request = messages_request();
  request["messages"][0]["content"] = Json::array({{{"type", "document"}}});
  EXPECT_THAT(server.ask("/v1/messages", request, 400)["error"]["message"].get<std::string>(),
              HasSubstr("messages[0].content[0].type is 'document'"));
}

}  // namespace
