#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "etna_model.h"

// --json-schema, --grammar and --regex of etna run and etna chat.
namespace etna {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer"}},
        "required": ["name", "age"], "additionalProperties": false})";

class EtnaForm : public EtnaModel {
 protected:
  /// What a random model writes behind the prompt "x".
  std::string written(const std::string& options, int seed = 1) const {
    const Result ran = etna(with_model("run") + "-q -p x -n 400 --temperature 3 --top-k 0 --top-p 1 --min-p 0 --seed " +
                            std::to_string(seed) + " " + options);
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_EQ(ran.output.front(), 'x') << ran.output;
    return ran.output.substr(1, ran.output.size() - 2);
  }
  void expect_person(const std::string& text) const {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(json.is_object()) << text;
    EXPECT_TRUE(json["name"].is_string() && json["age"].is_number_integer() && json.size() == 2) << text;
  }
};

TEST_F(EtnaForm, WritesWhatASchemaDescribes) {
  const std::string file = quoted(folder_.write("person.json", kPerson));
  for (int seed = 1; seed < 6; ++seed) expect_person(written("--json-schema " + file, seed));
  expect_person(written("--json-schema '" + std::string(kPerson) + "'"));
}

TEST_F(EtnaForm, WritesWhatAGrammarDescribes) {
  const std::string file = quoted(folder_.write("answer.gbnf", "root ::= (\"yes\" | \"no\") \", \" [0-9]{3} \".\"\n"));
  for (int seed = 1; seed < 6; ++seed)
    EXPECT_THAT(written("--grammar " + file, seed), MatchesRegex("(yes|no), [0-9][0-9][0-9]\\."));
}

TEST_F(EtnaForm, WritesWhatARegularExpressionMatches) {
  for (int seed = 1; seed < 6; ++seed) EXPECT_THAT(written("--regex '[abc]{4}-x'", seed), MatchesRegex("[abc]+-x"));
}

TEST_F(EtnaForm, HoldsForEachAnswerOfAChat) {
  const Result talked = run_program(
      ETNA_PROGRAM,
      with_model("chat") + "-q -n 20 --format chatml --regex '(yes|no)!' < " + quoted(folder_.write("lines", "a\nb\n")),
      "", "2>/dev/null");
  EXPECT_EQ(talked.code, 0) << talked.output;
  std::size_t answers = 0;
  for (std::size_t at = talked.output.find('!'); at != std::string::npos; at = talked.output.find('!', at + 1)) {
    const std::string before = talked.output.substr(0, at);
    EXPECT_TRUE(before.ends_with("yes") || before.ends_with("no")) << talked.output;
    ++answers;
  }
  EXPECT_EQ(answers, 2u) << talked.output;
}

TEST_F(EtnaForm, IsWrongBeforeTheModelIsRead) {
  const std::string run = "run --device cpu -p x -m " + quoted(folder_ / "none.gguf") + " ";
  const auto file = [&](const std::string& text) { return quoted(folder_.write("form", text)); };
  const auto expect = [&](const std::string& options, int code, const std::string& why) {
    const Result refused = etna(run + options);
    EXPECT_EQ(refused.code, code) << options << "\n" << refused.output;
    EXPECT_THAT(refused.output, AllOf(HasSubstr(why), Not(HasSubstr("none.gguf")))) << options;
  };
  expect("--json-schema " + file(R"({"not": {}})"), 4, "#/not");
  expect("--json-schema " + file("{"), 4, "--json-schema ");
  expect("--json-schema " + file(""), 4, "--json-schema ");
  expect("--json-schema " + file(std::string(2 << 20, ' ')), 4, "2097152 bytes");
  expect("--json-schema '{\"not\": {}}'", 2, "#/not");
  expect("--json-schema '{\"type\"'", 2, "--json-schema");
  expect("--json-schema " + quoted(folder_ / "missing.json"), 4, "missing.json");
  expect("--grammar " + file("root ::= other"), 4, "other");
  expect("--grammar " + file("a ::= \"b\""), 4, "root");
  expect("--grammar " + quoted(folder_.path()), 4, "is a folder");
  expect("--regex '(a'", 2, "--regex");
  expect("--regex '(?=a)'", 2, "--regex");
  expect("--regex a --grammar " + file("root ::= \"a\""), 2, "--grammar");
  expect("--regex a --json-schema true", 2, "--json-schema");
}

}  // namespace
}  // namespace etna
