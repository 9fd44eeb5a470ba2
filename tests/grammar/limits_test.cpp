#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>
#include <grammar/random_schemas.h>

// Sizes that must neither hang nor overflow: each compiles or is refused within seconds.
namespace etna::models {
namespace {

using fixtures::accepts;
using fixtures::byte_vocabulary;
using testing::HasSubstr;

std::string limit_refusal(const std::string& schema) {
  return fixtures::refusal_of([&] { json_schema_grammar(byte_vocabulary(), schema); });
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

class GrammarSizes : public testing::Test {
 protected:
  void TearDown() override {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    EXPECT_LT(seconds, 60) << "this is no hang, but near to one";
  }
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_F(GrammarSizes, DeepJsonIsRefused) {
  EXPECT_THAT(limit_refusal(repeated("[", 100'000)), HasSubstr("nested more than 100 deep"));
  EXPECT_THAT(limit_refusal(repeated(R"({"items":)", 100'000) + "{}" + repeated("}", 100'000)),
              HasSubstr("nested more than 100 deep"));
  EXPECT_EQ(limit_refusal(repeated(R"({"items":)", 90) + "{}" + repeated("}", 90)), "");
  GrammarLimits limits;
  limits.depth = 0;
  EXPECT_THAT(fixtures::refusal_of([&] { json_schema_grammar(byte_vocabulary(), R"({"items":{}})", limits); }),
              HasSubstr("GrammarLimits::depth"));
}

TEST_F(GrammarSizes, LargeSourcesAreRefused) {
  EXPECT_THAT(limit_refusal(std::string((1 << 20) + 1, ' ')), HasSubstr("at most 1048576 are read"));
}

TEST_F(GrammarSizes, AThousandProperties) {
  for (const bool required : {false, true}) {
    fixtures::Json schema = {{"type", "object"}, {"properties", fixtures::Json::object()}};
    std::string all = "{";
    for (int i = 0; i < 1000; ++i) {
      const std::string name = "property_" + std::to_string(i);
      schema["properties"][name] = {{"type", "integer"}};
      if (required) schema["required"].push_back(name);
      all += (i == 0 ? "\"" : ",\"") + name + "\":" + std::to_string(i);
    }
    const auto grammar = json_schema_grammar(fixtures::piece_vocabulary(), schema.dump());
    EXPECT_TRUE(accepts(*grammar, all + "}"));
    EXPECT_EQ(accepts(*grammar, R"({"property_7":1,"property_999":2})"), !required);
    EXPECT_FALSE(accepts(*grammar, R"({"property_999":1,"property_7":2})"));
    EXPECT_TRUE(fixtures::is_allowed(*grammar, TokenGrammar::kStart, '{'));
  }
}

TEST_F(GrammarSizes, ManyPropertiesThatAreCounted) {
  fixtures::Json schema = {{"type", "object"}, {"minProperties", 900}, {"maxProperties", 950}};
  for (int i = 0; i < 1000; ++i) schema["properties"]["p" + std::to_string(i)] = {{"type", "null"}};
  EXPECT_THAT(limit_refusal(schema.dump()), HasSubstr("GrammarLimits::nodes"));
  schema["minProperties"] = 3;
  schema.erase("maxProperties");
  EXPECT_EQ(limit_refusal(schema.dump()), "");
}

/// 20 levels of two alternatives each are a million cases where they multiply, and 40 where they are nested values.
TEST_F(GrammarSizes, AlternativesThatMultiplyAreRefused) {
  fixtures::Json schema = fixtures::Json::object();
  for (int i = 0; i < 20; ++i)
    schema["allOf"].push_back({{"anyOf", {{{"type", "string"}, {"minLength", i}}, {{"maxLength", 100 + i}}}}});
  EXPECT_THAT(limit_refusal(schema.dump()), HasSubstr("more than 20000"));
  std::string nested = R"({"type":"null"})";
  for (int i = 0; i < 20; ++i)
    nested = R"({"anyOf":[{"items":{"$ref":"#/$defs/d)" + std::to_string(i) + R"("}},)" + nested + "]}";
  std::string definitions = R"("$defs":{)";
  for (int i = 0; i < 20; ++i)
    definitions += (i == 0 ? "\"d" : ",\"d") + std::to_string(i) + R"(":{"anyOf":[{"$ref":"#/$defs/e"},{"items":{}}]})";
  nested.insert(1, definitions + R"(,"e":{"type":"null"}},)");
  EXPECT_EQ(limit_refusal(nested), "");
}

TEST_F(GrammarSizes, LongChainsOfReferences) {
  const auto chain = [](int length, const char* before, const char* after) {
    std::string schema = R"({"$ref":"#/$defs/d0","$defs":{)";
    for (int i = 0; i < length; ++i)
      schema += "\"d" + std::to_string(i) + "\":" + before + "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}" +
                after + ",";
    return schema + "\"d" + std::to_string(length) + "\":{\"type\":\"null\"}}}";
  };
  EXPECT_THAT(limit_refusal(chain(10'000, "", "")), HasSubstr("refer to each other without a level of JSON between"));
  EXPECT_EQ(limit_refusal(chain(300, "", "")), "");
  EXPECT_EQ(limit_refusal(chain(10'000, R"({"type":"array","items":)", "}")), "");
  EXPECT_EQ(limit_refusal(chain(5'000, R"({"anyOf":[{"type":"null"},{"type":"array","items":)", "}]}")), "");
}

TEST_F(GrammarSizes, MutualRecursion) {
  const auto grammar = json_schema_grammar(
      byte_vocabulary(), R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/o"}},)"
                         R"("o":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}}})");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "[{\"a\":";
  text += "[]" + repeated("}]", 2000);
  EXPECT_TRUE(accepts(*grammar, text));
  EXPECT_FALSE(accepts(*grammar, text + "]"));
}

TEST_F(GrammarSizes, LongLists) {
  fixtures::Json schema = {{"type", "string"}, {"pattern", "^v[0-9]*$"}, {"enum", fixtures::Json::array()}};
  for (int i = 0; i < 20'000; ++i) schema["enum"].push_back("v" + std::to_string(i));
  EXPECT_EQ(limit_refusal(schema.dump()), "");
  EXPECT_EQ(limit_refusal(fixtures::Json{{"oneOf", {schema, {{"enum", {"v", "w"}}}}}}.dump()), "");
  EXPECT_THAT(limit_refusal(fixtures::Json{{"oneOf", {schema, schema}}}.dump()),
              HasSubstr("both alternatives 0 and 1"));
  EXPECT_THAT(limit_refusal(R"({"allOf":[{})" + repeated(",{}", 100'000) + "]}"),
              HasSubstr("5000 schemas hold for one"));
  EXPECT_THAT(limit_refusal(R"({"anyOf":[{})" + repeated(",{}", 100'000) + "]}"), HasSubstr("are more than 20000"));
  EXPECT_THAT(limit_refusal(R"({"oneOf":[{"type":"null"})" + repeated(R"(,{"type":"string"})", 1000) + "]}"),
              HasSubstr("both alternatives"));
}

TEST_F(GrammarSizes, LimitsAreChecked) {
  GrammarLimits limits;
  limits.depth = 100'000;
  EXPECT_THAT(fixtures::refusal_of([&] { regex_grammar(byte_vocabulary(), "a", limits); }),
              HasSubstr("depth is 100000"));
  limits = {};
  limits.states = 0;
  EXPECT_THAT(fixtures::refusal_of([&] { regex_grammar(byte_vocabulary(), "a", limits); }), HasSubstr("states is 0"));
}

TEST_F(GrammarSizes, OddNumbers) {
  EXPECT_EQ(limit_refusal(R"({"type":"string","minLength":1000000000})"), "");
  EXPECT_THAT(limit_refusal(R"({"type":"string","minLength":1e300})"), HasSubstr("minLength of more than"));
  EXPECT_EQ(limit_refusal(R"({"type":"string","maxLength":1e300})"), "");
  EXPECT_EQ(limit_refusal(R"({"type":"array","maxItems":1e300,"items":{}})"), "");
  EXPECT_THAT(limit_refusal(R"({"type":"array","minItems":1e300})"), HasSubstr("a count of more than"));
  EXPECT_THAT(limit_refusal(R"({"type":"integer","minimum":1e999})"), HasSubstr("not JSON"));
  EXPECT_EQ(limit_refusal(R"({"type":"integer","minimum":-1e308,"maximum":1e308})"), "");
  EXPECT_EQ(limit_refusal(R"({"type":"number","minimum":-1e308,"maximum":5e-324})"), "");
  EXPECT_EQ(limit_refusal(R"({"type":"number","exclusiveMinimum":-0.0})"), "");
}

}  // namespace
}  // namespace etna::models
