#include <thread>

#include <gtest/gtest.h>

#include <grammar/grammar_fixtures.h>

namespace etna::models {
namespace {

/// A server compiles forms in the threads of its clients, which share the vocabulary.
TEST(GrammarThreads, ShareAVocabulary) {
  const auto grammars = [](unsigned seed) {
    std::mt19937 random(seed);
    const std::vector<GrammarText> calls = {
        {{{{GrammarPart::Kind::json, {R"({"type": "object", "properties": {"x": {"type": "integer"}}})"}}}}}};
    const std::vector<std::shared_ptr<TokenGrammar>> all = {
        json_object_grammar(fixtures::piece_vocabulary()),
        regex_grammar(fixtures::piece_vocabulary(), "[a-z]{2,40}( \\d+)*"),
        json_schema_grammar(fixtures::piece_vocabulary(), R"({"type": "array", "items": {"format": "date"}})"),
        marked_grammar(fixtures::piece_vocabulary(), {.markers = {"ab"}, .texts = calls, .objects = calls})};
    std::vector<std::string> texts;
    for (const auto& grammar : all) {
      texts.push_back(fixtures::random_text(
          *grammar, [](std::int32_t token) { return fixtures::piece_texts()[static_cast<std::size_t>(token)]; },
          random));
    }
    return texts;
  };
  std::vector<std::vector<std::string>> texts(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] { texts[i] = grammars(static_cast<unsigned>(i)); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(texts[i].size(), 4u);
    EXPECT_EQ(texts[i], grammars(static_cast<unsigned>(i))) << "alone it is the same";
  }
}

}  // namespace
}  // namespace etna::models
