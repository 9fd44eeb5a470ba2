#include <cstdlib>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>
#include <grammar/random_schemas.h>

// Answers of random tokens to random schemas. ETNA_SCHEMAS=N tries N schemas instead of 500; ETNA_ANSWERS=FILE also
// writes lines {"schema": ..., "answer": ...} for tests/grammar/validate.mjs.
namespace etna::models {
namespace {

/// A refusal without what differs from schema to schema: the keyword and the sentence.
std::string reason_of(const std::string& refusal) {
  std::string reason;
  for (std::size_t i = 0; i < refusal.size() && reason.size() < 110; ++i) {
    if (refusal[i] == '#') {
      std::size_t end = refusal.find(": ", i);
      if (end == std::string::npos) end = refusal.size();
      const std::size_t slash = refusal.rfind('/', end);
      reason += slash == std::string::npos || slash < i ? "#" : refusal.substr(slash + 1, end - slash - 1);
      i = end - 1;
    } else {
      reason += refusal[i] >= '0' && refusal[i] <= '9' ? 'N' : refusal[i];
    }
  }
  return reason;
}

TEST(RandomSchemas, EachAnswerValidatesOrTheSchemaIsRefused) {
  const char *const count = std::getenv("ETNA_SCHEMAS"), *const file = std::getenv("ETNA_ANSWERS");
  const int schemas = count == nullptr ? 500 : std::atoi(count);
  std::ofstream out;
  if (file != nullptr) out.open(file);
  fixtures::RandomSchemas random_schemas(17);
  std::mt19937 random(5);
  std::map<std::string, int> refused;
  int answers = 0, endless = 0, refusals = 0;
  const auto text_of = [](std::int32_t token) { return fixtures::piece_texts()[static_cast<std::size_t>(token)]; };
  for (int i = 0; i < schemas; ++i) {
    const fixtures::Json schema = random_schemas.next();
    SCOPED_TRACE(schema.dump());
    std::shared_ptr<TokenGrammar> grammar;
    try {
      grammar = json_schema_grammar(fixtures::piece_vocabulary(), schema.dump());
    } catch (const GrammarError& error) {
      ++refused[reason_of(error.what())];
      ++refusals;
      continue;
    }
    for (int n = 0; n < 2; ++n) {
      const std::string answer = fixtures::random_text(*grammar, text_of, random, n * 30);
      if (answer.empty()) {
        ++endless;
        continue;
      }
      ++answers;
      const fixtures::Json value = fixtures::Json::parse(answer, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << answer;
      ASSERT_TRUE(fixtures::validates(schema, value, schema)) << answer;
      if (file != nullptr) out << fixtures::Json{{"schema", schema}, {"answer", answer}}.dump() << "\n";
    }
  }
  std::printf("%d random schemas: %d answers validate, %d did not end; %d schemas were refused\n", schemas, answers,
              endless, refusals);
  for (const auto& [reason, times] : refused) std::printf("%6d  %s\n", times, reason.c_str());
  EXPECT_GT(answers, schemas) << "too many schemas were refused";
  EXPECT_LT(endless, schemas / 20 + 1);
}

}  // namespace
}  // namespace etna::models
