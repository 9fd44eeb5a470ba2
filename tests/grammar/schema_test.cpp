#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>

namespace etna::models {
namespace {

using fixtures::accepts;
using fixtures::byte_vocabulary;
using testing::HasSubstr;

std::string schema_refusal(const std::string& schema) {
  return fixtures::refusal_of([&] { json_schema_grammar(byte_vocabulary(), schema); });
}

struct SchemaCase {
  const char* schema;
  std::vector<std::string> accepted, refused;
};

void check_cases(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& c : cases) {
    SCOPED_TRACE(c.schema);
    const auto grammar = json_schema_grammar(byte_vocabulary(), c.schema);
    for (const std::string& text : c.accepted) EXPECT_TRUE(accepts(*grammar, text)) << text;
    for (const std::string& text : c.refused) EXPECT_FALSE(accepts(*grammar, text)) << text;
  }
}

TEST(JsonSchemaGrammar, Scalars) {
  check_cases({
      {R"({"type":"null"})", {"null"}, {"", "nul", "true", " null", "null "}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "1"}},
      {R"({"type":"integer"})", {"0", "-7", "123456789012345"}, {"-0", "01", "1.0", "1e3", "1234567890123456", "+1"}},
      {R"({"type":"number"})", {"0", "-0.5", "1e-9", "12.25E+3"}, {".5", "1.", "01", "1e400", "NaN", "Infinity"}},
      {R"({"type":["string","null"]})", {"\"\"", "null"}, {"0"}},
      {R"({"type":"string"})",
       {R"("a\n\u00e9\ud83d\ude00/\/")", "\"\xC3\xA9\""},
       {"\"\n\"", "\"\t\"", R"("\x41")", R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")", "\"\xC3\"",
        "\"\xED\xA0\x80\""}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("\n\u0041\ud83d\ude00")", "\"\xF0\x9F\x98\x80\xC3\xA9\""},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")", R"("abc\n")"}},
      {R"({"const":"a\"\\\u0001\n/"})", {"\"a\\\"\\\\\\u0001\\n/\""}, {"\"a\""}},
      {R"({"enum":[1,"1",null,1.5,[1,{"a":[]}]]})", {"1", "\"1\"", "null", "1.5", R"([1, {"a":[]}])"}, {"2", "[1]"}},
      {R"({"enum":[1,"a",null],"type":["string","null"]})", {"\"a\"", "null"}, {"1"}},
      {R"({"enum":[1,5,9],"minimum":2,"exclusiveMaximum":9})", {"5"}, {"1", "9"}},
      {R"({"type":"number","multipleOf":1})", {"3"}, {"3.5"}},
      {"true", {"1", "[{}]", "\"x\"", R"({"a": {"b": [null, true]}})"}, {"", "{", "[1,]", "{\"a\"}"}},
  });
}

TEST(JsonSchemaGrammar, Bounds) {
  check_cases({
      {R"({"type":"integer","minimum":-12,"maximum":105})",
       {"-12", "-9", "-1", "0", "9", "10", "99", "100", "105"},
       {"-13", "-99", "106", "110", "1000", "-0", "00"}},
      {R"({"type":"integer","exclusiveMinimum":0,"maximum":9.5})", {"1", "9"}, {"0", "10", "-1"}},
      {R"({"type":"integer","minimum":100})", {"100", "9007199254740991"}, {"99", "9007199254740992", "-100"}},
      {R"({"type":"integer","maximum":-100})", {"-100", "-9007199254740991"}, {"-99", "0", "100"}},
      {R"({"type":"integer","minimum":3,"maximum":3})", {"3"}, {"2", "4", "33"}},
      {R"({"type":"number","minimum":0,"maximum":1})",
       {"0", "1", "0.5", "0.000001", "1.0", "1.000000", "0.999999"},
       {"-0.1", "1.000001", "1.1", "2", "-0", "0.0000001"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.1", "0.000001", "0.90"},
       {"0", "0.0", "0.000000", "1", "1.0"}},
      {R"({"type":"number","minimum":-1.25,"maximum":-0.5})",
       {"-1.25", "-1.250", "-1", "-0.5", "-0.75"},
       {"-1.26", "-0.49", "-0.4", "0", "1"}},
      {R"({"type":"number","minimum":2.5})", {"2.5", "2.50", "3", "1234567"}, {"2.4", "2", "-3", "2.49"}},
      {R"({"type":"number","exclusiveMaximum":10})", {"9.999999", "-123.5", "0"}, {"10", "10.0", "11"}},
      {R"({"type":"number","minimum":0.1,"maximum":0.3})", {"0.1", "0.2", "0.3", "0.25"}, {"0.09", "0.31", "0"}},
      {R"({"type":"number","minimum":-1e300,"maximum":1e300})", {"0", "-5", "100"}, {}},
  });
}

TEST(JsonSchemaGrammar, Patterns) {
  check_cases({
      {R"({"type":"string","pattern":"^[a-z]+$"})", {"\"abc\""}, {"\"\"", "\"A\"", "\"ab1\""}},
      {R"({"type":"string","pattern":"b"})", {"\"b\"", "\"abc\"", "\"\\nb\\\"\""}, {"\"\"", "\"ac\""}},
      {R"({"type":"string","pattern":"^a|c$"})", {"\"ax\"", "\"xc\""}, {"\"xa\"", "\"cx\""}},
      {R"({"type":"string","pattern":"^[\"\\\\\\n]$"})", {R"("\"")", R"("\\")", R"("\n")"}, {R"("n")", "\"\"\""}},
      {R"({"type":"string","pattern":"^[a-c]*$","minLength":1,"maxLength":2})",
       {"\"a\"", "\"bc\""},
       {"\"\"", "\"abc\""}},
      {R"({"type":"string","pattern":"^x{2,3}$","maxLength":9})", {"\"xx\""}, {"\"x\""}},
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-29\"", "\"2023-12-31\"", "\"2000-02-29\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2024-02-29T23:59:59.5Z\"", "\"2024-01-01T00:00:00+01:30\""},
       {"\"2024-01-01\"", "\"2024-01-01T24:00:00Z\""}},
      {R"({"type":"string","format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123\""}},
      {R"({"type":"string","format":"ipv4"})", {"\"255.0.10.1\""}, {"\"256.0.0.1\"", "\"01.0.0.0\""}},
      {R"({"type":"string","format":"ipv6"})",
       {"\"::\"", "\"::1\"", "\"fe80::1:2\"", "\"1:2:3:4:5:6:7:8\"", "\"1:2:3:4:5:6:7::\""},
       {"\"1:2\"", "\"1::2::3\"", "\":1\""}},
      {R"({"type":"string","format":"email"})", {"\"a.b@c.de\""}, {"\"a@b\"", "\"@b.c\""}},
  });
}

TEST(JsonSchemaGrammar, Arrays) {
  check_cases({
      {R"({"type":"array","items":{"type":"boolean"}})",
       {"[]", "[true]", "[true,false]", "[true, false]", "[\n  true,\n  false\n]"},
       {"[1]", "[true,]", "[true", "[,true]", "[true,   false]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})",
       {"[null]", "[null,null]"},
       {"[]", "[null,null,null]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}]})", {"[]", "[1]", "[1,2]"}, {"[2]", "[1,2,3]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":2,"maxItems":4})",
       {"[1,2]", "[1,2,3,3]"},
       {"[1]", "[1,2,3,3,3]"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"items":false,"minItems":1})", {"[1]"}, {"[]", "[1,1]"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"minItems":3})", {"[1,null,{}]"}, {"[1]", "[1,2,3,4]"}},
      {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1,"maxItems":2})",
       {R"(["a"])", R"(["a","c"])", R"(["b","c"])"},
       {"[]", R"(["a","a"])", R"(["a","b","c"])"}},
      {R"({"type":"array","maxItems":1,"uniqueItems":true})", {"[]", "[{}]"}, {"[1,2]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"items":{"const":1}})", {"[1,1]"}, {"1", "{}"}},
  });
}

TEST(JsonSchemaGrammar, Objects) {
  check_cases({
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2})", R"({ "a": 1, "b": 2 })"},
       {"{}", R"({"a":1})", R"({"b":2,"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{"a":{"const":1}},"additionalProperties":{"const":0}})",
       {"{}", R"({"a":1,"b":0,"aa":0})", R"({"":0})"},
       {R"({"a":0})", R"({"b":0,"a":1})", R"({"b":1})", R"({"\u0061":0})"}},
      {R"({"type":"object","properties":{"a":true},"additionalProperties":true})",
       {R"({"a":[1],"b":{}})"},
       {R"({"b":0,"a":1})"}},
      {R"({"type":"object"})", {"{}", R"({"a":{"b":[1]}})"}, {"[]", "1"}},
      {R"({"type":"object","properties":{}})", {"{}"}, {}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","required":["x","y"]})", {R"({"x":1,"y":[]})"}, {"{}", R"({"x":1})"}},
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},)"
       R"("minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","additionalProperties":{"const":0},"minProperties":1,"maxProperties":2})",
       {R"({"k":0})", R"({"k":0,"l":0})"},
       {"{}", R"({"k":0,"l":0,"m":0})"}},
      {R"({"type":"object","properties":{"a":{"const":1}},"minProperties":2,"additionalProperties":{"const":0}})",
       {R"({"a":1,"k":0})", R"({"a":1,"k":0,"l":0})"},
       {"{}", R"({"a":1})", R"({"k":0})", R"({"k":0,"l":0})"}},
      {R"({"type":"object","patternProperties":{"^x[0-9]$":{"const":1}},"additionalProperties":false})",
       {"{}", R"({"x1":1,"x2":1})"},
       {R"({"y":1})", R"({"x1":2})"}},
      {R"({"properties":{"a b\"":{"const":1}},"required":["a b\""]})", {R"({"a b\"":1})"}, {"{}", "1"}},
      {R"({"type":"object","properties":{"a":false,"b":{"const":1}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
  });
}

TEST(JsonSchemaGrammar, Combinations) {
  check_cases({
      {R"({"anyOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]})",
       {"null", "[]", "[null,[[]]]"},
       {"1", "[1]", "["}},
      {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {"\"a\"", "1"}, {"null", "1.5"}},
      {R"({"oneOf":[{"properties":{"k":{"const":"a"},"v":{"type":"null"}},"required":["k","v"]},)"
       R"({"properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":"a","v":null})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
       R"({"properties":{"a":{"minimum":5},"b":{"const":1}}}]})",
       {R"({"a":5})", R"({"a":7,"b":1})"},
       {R"({"a":4})", "{}", R"({"b":1})"}},
      {R"({"allOf":[{"properties":{"a":{"const":1}},"additionalProperties":false},)"
       R"({"properties":{"b":{"const":1}}}],"type":"object"})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"type":"string","anyOf":[{"maxLength":1},{"minLength":3}]})", {"\"\"", "\"a\"", "\"abc\""}, {"\"ab\"", "1"}},
      {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},)"
       R"("next":{"$ref":"#/$defs/node"}},"required":["v"]}}})",
       {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
       {"{}", R"({"v":1,"next":{}})"}},
      {R"({"$ref":"#/definitions/a~1b%25","definitions":{"a/b%":{"const":1}}})", {"1"}, {"2"}},
      {R"({"$defs":{"n":{"minimum":3}},"$ref":"#/$defs/n","type":"integer","maximum":4})", {"3", "4"}, {"2", "5"}},
      {R"({"anyOf":[{"type":"integer"},false]})", {"1"}, {"\"a\""}},
      {R"({"enum":["a","b"],"anyOf":[{"const":"a"},{"const":"z"}]})", {"\"a\""}, {"\"b\"", "\"z\""}},
  });
}

TEST(JsonSchemaGrammar, RefusalsNameThePointer) {
  EXPECT_THAT(schema_refusal("{"), HasSubstr("JSON schema: not JSON"));
  EXPECT_THAT(schema_refusal(""), HasSubstr("JSON schema: not JSON"));
  EXPECT_THAT(schema_refusal("1"), HasSubstr("#: wanted a schema"));
  EXPECT_THAT(schema_refusal(R"({"type":"object","type":"string"})"), HasSubstr("occurs twice"));
  EXPECT_THAT(schema_refusal(R"({"properties":{"a/b":{"not":{}}}})"),
              HasSubstr("#/properties/a~1b/not: this keyword is not supported; describe"));
  for (const char* keyword : {"if", "contains", "propertyNames", "dependentRequired", "unevaluatedProperties",
                              "nullable", "$anchor", "$dynamicRef", "contentEncoding", "xyz"})
    EXPECT_THAT(schema_refusal("{\"" + std::string(keyword) + "\":{}}"),
                HasSubstr(std::string("#/") + keyword + ": this keyword is not "));
  EXPECT_THAT(schema_refusal(R"({"type":"strin"})"), HasSubstr("#/type: \"strin\" is not a type"));
  EXPECT_THAT(schema_refusal(R"({"type":[]})"), HasSubstr("#/type"));
  EXPECT_THAT(schema_refusal(R"({"minLength":-1})"), HasSubstr("#/minLength: wanted an integer of 0 or more"));
  EXPECT_THAT(schema_refusal(R"({"enum":[]})"), HasSubstr("#/enum"));
  EXPECT_THAT(schema_refusal(R"({"multipleOf":5})"), HasSubstr("#/multipleOf: only a multipleOf of 1"));
  EXPECT_THAT(schema_refusal(R"({"type":"string","format":"iri"})"),
              HasSubstr("#/format: format \"iri\" is not known"));
  EXPECT_THAT(schema_refusal(R"x({"type":"string","pattern":"(?=a)"})x"),
              HasSubstr("#/pattern: position 1: look-around"));
  EXPECT_THAT(schema_refusal(R"({"type":"string","pattern":"^a+b$","maxLength":5})"),
              HasSubstr("#/pattern: a length next to"));
  EXPECT_THAT(schema_refusal(R"({"type":"string","pattern":"a","format":"date"})"),
              HasSubstr("only one pattern or format"));
  EXPECT_THAT(schema_refusal(R"({"items":[{}]})"), HasSubstr("#/items: items is one schema"));
  EXPECT_THAT(schema_refusal(R"({"type":"array","uniqueItems":true})"), HasSubstr("#/uniqueItems"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"#/$defs/x"})"), HasSubstr("refers to nothing"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"http://a.b/c"})"), HasSubstr("another document"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"#x"})"), HasSubstr("anchor"));
  EXPECT_THAT(schema_refusal(R"({"$ref":"#"})"), HasSubstr("refers to itself"));
  EXPECT_THAT(schema_refusal(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"), HasSubstr("refers to itself"));
  EXPECT_THAT(schema_refusal(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"),
              HasSubstr("#/oneOf: a value may validate against both alternatives 0 and 1"));
  EXPECT_THAT(schema_refusal(R"({"oneOf":[{"required":["a"]},{"required":["b"]}]})"), HasSubstr("#/oneOf"));
  EXPECT_THAT(schema_refusal(R"({"oneOf":[{"minLength":1},{"type":"object"}]})"), HasSubstr("#/oneOf"));
  EXPECT_THAT(schema_refusal(R"({"type":"object","minProperties":3})"), HasSubstr("minProperties 3"));
  EXPECT_THAT(schema_refusal(R"({"type":"integer","minimum":1e17})"), HasSubstr("2^53"));
  EXPECT_THAT(schema_refusal(R"({"type":"number","minimum":0.00000001,"maximum":0.00000002})"),
              HasSubstr("no number of up to 15 digits"));
  for (const char* schema :
       {"false", R"({"type":"string","enum":[1]})", R"({"allOf":[{"type":"string"},{"type":"null"}]})",
        R"({"type":"integer","minimum":5,"maximum":4})", R"({"type":"string","minLength":3,"maxLength":2})",
        R"({"type":"object","required":["a"],"properties":{"a":false}})",
        R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})",
        R"({"type":"object","required":["a"],"additionalProperties":false})",
        R"({"type":"array","minItems":2,"maxItems":1})"})
    EXPECT_THAT(schema_refusal(schema), HasSubstr("no value validates against it")) << schema;
}

TEST(JsonSchemaGrammar, JsonObjectMode) {
  const auto grammar = json_object_grammar(byte_vocabulary());
  for (const char* text : {"{}", R"({"a":[1,2,{"b":null}]})", R"({"x": "y\n"})"})
    EXPECT_TRUE(accepts(*grammar, text)) << text;
  for (const char* text : {"", "[]", "1", " {}", "{} ", "{\"a\":}", "{\"a\" :1}"})
    EXPECT_FALSE(accepts(*grammar, text)) << text;
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{\"a\":";
    return text + "1" + std::string(static_cast<std::size_t>(depth), '}');
  };
  EXPECT_TRUE(accepts(*grammar, nested(64)));
  EXPECT_FALSE(accepts(*grammar, nested(65)));
  GrammarLimits limits;
  limits.free_depth = 1;
  limits.whitespace = JsonWhitespace::none;
  const auto flat = json_object_grammar(byte_vocabulary(), limits);
  EXPECT_TRUE(accepts(*flat, nested(1)));
  EXPECT_FALSE(accepts(*flat, nested(2)));
  EXPECT_FALSE(accepts(*flat, "{ }"));
  limits.free_depth = 0;
  EXPECT_THAT(fixtures::refusal_of([&] { json_object_grammar(byte_vocabulary(), limits); }),
              HasSubstr("free_depth is 0"));
}

}  // namespace
}  // namespace etna::models
