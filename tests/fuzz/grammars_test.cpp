#include <fuzz/damage.h>
#include <fuzz/targets.h>

// The readers of grammars, over damaged sources.
namespace etna::fuzz {
namespace {

TEST(FuzzGrammars, JsonSchemaSurvivesDamage) {
  const std::string source =
      R"({"$schema":"x","type":"object","properties":{"id":{"type":"integer","minimum":-12,"maximum":105},)"
      R"("tags":{"type":"array","items":{"enum":["a","b"]},"uniqueItems":true,"maxItems":3},)"
      R"("s":{"type":"string","pattern":"^[a-z]{1,3}$"},"next":{"$ref":"#/$defs/n"}},"required":["id"],)"
      R"("$defs":{"n":{"anyOf":[{"type":"null"},{"$ref":"#"},{"type":"number","exclusiveMinimum":0.25}]}}})";
  const Damage result = damage(source, json_schema, 3, 1000);
  EXPECT_GT(result.tried, 4000u);
  EXPECT_GT(result.refused, result.tried / 3);
}

TEST(FuzzGrammars, RegexSurvivesDamage) {
  const Damage result = damage("^(?:a{2,5}|[^b-d\\w\\u{1f600}]+?|(?<n>x*)*y|\\d.\\x41)(z|){0,9}$", regex, 1, 1000);
  EXPECT_GT(result.tried, 1500u);
  EXPECT_GT(result.refused, result.tried / 10);
}

TEST(FuzzGrammars, GbnfSurvivesDamage) {
  const std::string source =
      "root ::= item (\",\" ws item){0,7} # a list\nitem ::= [^a-z\\n\\u00e9] | \"(\" root \")\" | \"\\x41b\"+\n"
      "ws ::= ([ \\t]? \"\")*\n";
  const Damage result = damage(source, gbnf, 1, 1000);
  EXPECT_GT(result.tried, 2500u);
  EXPECT_GT(result.refused, result.tried / 10);
}

}  // namespace
}  // namespace etna::fuzz
