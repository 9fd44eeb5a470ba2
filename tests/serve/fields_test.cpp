#include <etna/serve/fields.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/serve/api_error.h>

namespace etna::serve {
namespace {

using testing::HasSubstr;

/// What a call is refused with: "param: message".
template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param + ": " + error.what();
  }
  return "nothing";
}
template <typename Call>
std::string refusal_of(const char* text, const Call& call) {
  const Json value = Json::parse(text);
  return refusal([&] {
    Fields fields(value, "");
    call(fields);
    fields.finish();
  });
}

TEST(JsonText, SaysWhereTextIsNoJson) {
  EXPECT_THAT(refusal([] { parse_json("{\"a\": 1,\n 2}"); }), HasSubstr("line 2, column 2"));
  EXPECT_THAT(refusal([] { parse_json(""); }), HasSubstr("the body is empty"));
  EXPECT_THAT(refusal([] { parse_json("{} {}"); }), HasSubstr("not JSON"));
  EXPECT_THAT(refusal([] { parse_json("{\"a\": NaN}"); }), HasSubstr("not JSON"));
  EXPECT_THAT(refusal([] { parse_json("[1e400]"); }), HasSubstr("not JSON"));
}

TEST(JsonText, RefusesInvalidUtf8) {
  EXPECT_THAT(refusal([] { parse_json("{\"a\": \"\xff\"}"); }), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal([] { parse_json("{\"a\": \"\xed\xa0\x80\"}"); }), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal([] { parse_json("{\"a\": \"\\ud800\"}"); }), HasSubstr("surrogate"));
}

TEST(JsonText, RefusesNestingOf100000) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += open;
    EXPECT_THAT(refusal([&] { parse_json(text); }), HasSubstr("deeper than 64"));
  }
}

TEST(JsonText, RefusesANameTwiceAndTooManyNames) {
  EXPECT_THAT(refusal([] { parse_json("{\"a\": 1, \"b\": {\"a\": 2}, \"a\": 3}"); }), HasSubstr("'a' twice"));
  EXPECT_EQ(refusal([] { parse_json("[{\"a\": 1}, {\"a\": 2}]"); }), "nothing");
  Json many;
  for (int i = 0; i < 1025; ++i) many[std::to_string(i)] = 0;
  EXPECT_THAT(refusal([&] { parse_json(many.dump()); }), HasSubstr("more than 1024 fields"));
}

TEST(Fields, RefuseWhatNobodyRead) {
  EXPECT_EQ(refusal_of("{\"a\": 1}", [](Fields& f) { f.integer_if("a"); }), "nothing");
  EXPECT_THAT(refusal_of("{\"a\": 1, \"b\": null}", [](Fields& f) { f.integer_if("a"); }),
              HasSubstr("b: unknown field"));
}

TEST(Fields, NameTheFieldTheValueAndWhatWasWanted) {
  EXPECT_EQ(refusal_of("{\"n\": 0}", [](Fields& f) { f.integer_if("n", {.least = 1, .most = 8}); }),
            "n: n is 0; wanted an integer from 1 to 8");
  EXPECT_EQ(refusal_of("{\"n\": \"x\"}", [](Fields& f) { f.integer_if("n", {.least = 1}); }),
            "n: n is \"x\" (string); wanted an integer of 1 or more");
  EXPECT_THAT(refusal_of("{\"n\": 1.5}", [](Fields& f) { f.integer_if("n"); }), HasSubstr("1.5 (number)"));
  EXPECT_THAT(refusal_of("{\"n\": 18446744073709551615}", [](Fields& f) { f.integer_if("n"); }),
              HasSubstr("n is 18446744073709551615"));
  EXPECT_THAT(refusal_of("{\"n\": 1e300}", [](Fields& f) { f.integer_if("n"); }), HasSubstr("wanted an integer"));
  EXPECT_EQ(refusal_of("{\"t\": -0.5}", [](Fields& f) { f.real_if("t", {.least = 0, .most = 2}); }),
            "t: t is -0.5; wanted a number from 0 to 2");
  EXPECT_EQ(refusal_of("{\"t\": true}", [](Fields& f) { f.real_if("t"); }), "t: t is true (boolean); wanted a number");
  EXPECT_EQ(refusal_of("{}", [](Fields& f) { f.string("model"); }), "model: 'model' is missing");
  EXPECT_EQ(refusal_of("{\"model\": null}", [](Fields& f) { f.string("model"); }), "model: 'model' is missing");
  EXPECT_EQ(refusal_of("{\"w\": \"c\"}",
                       [](Fields& f) {
                         f.word_if("w", {"a", "b"});
                       }),
            "w: w is \"c\"; wanted one of: a, b");
  EXPECT_EQ(refusal_of("[1]", [](Fields&) {}), ": the body is an array of 1 values (array); wanted an object");
}

TEST(Fields, TakeIntegersThatAreWrittenAsReals) {
  const Json value = Json::parse("{\"n\": 5.0, \"m\": null}");
  Fields fields(value, "");
  EXPECT_EQ(fields.integer_if("n"), 5);
  EXPECT_EQ(fields.integer_if("m"), std::nullopt);
}

TEST(Fields, TakeATextOrSomeTexts) {
  EXPECT_EQ(refusal_of("{\"s\": \"x\"}", [](Fields& f) { EXPECT_EQ(f.strings("s", 4).size(), 1u); }), "nothing");
  EXPECT_EQ(refusal_of("{\"s\": [\"x\", 2]}", [](Fields& f) { f.strings("s", 4); }),
            "s[1]: s[1] is 2 (integer); wanted a string");
  EXPECT_THAT(refusal_of("{\"s\": [\"a\", \"b\"]}", [](Fields& f) { f.strings("s", 1); }), HasSubstr("at most 1"));
  EXPECT_THAT(refusal_of("{\"s\": \"\"}", [](Fields& f) { f.strings("s", 1); }), HasSubstr("an empty text"));
}

TEST(Fields, TakeOnlyValuesThatAskForNothing) {
  const auto store = [](Fields& f) { f.neutral("store", {false}, "nothing is stored"); };
  EXPECT_EQ(refusal_of("{\"store\": false}", store), "nothing");
  EXPECT_EQ(refusal_of("{\"store\": null}", store), "nothing");
  EXPECT_EQ(refusal_of("{\"store\": true}", store),
            "store: store is true, which this server does not support: nothing is stored; leave it out, or send false");
}

}  // namespace
}  // namespace etna::serve
