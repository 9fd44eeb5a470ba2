#include <etna/data/corpus.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <etna/data/internal/demo_grammar.h>
#include <etna/data/internal/words.h>

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DemoCorpus, HasTheSizesItPromises) {
  const Corpus corpus = demo_corpus();
  EXPECT_THAT(corpus.train.size(), testing::AllOf(testing::Ge(120'000u), testing::Le(121'000u)));
  EXPECT_THAT(corpus.valid.size(), testing::AllOf(testing::Ge(8'000u), testing::Le(9'000u)));
  EXPECT_THAT(corpus.test.size(), testing::AllOf(testing::Ge(8'000u), testing::Le(9'000u)));
  EXPECT_THAT(corpus.vocab.size(), testing::AllOf(testing::Ge(1'000u), testing::Le(1'500u)));
}

TEST(DemoCorpus, IsTheSameOnEveryMachine) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : demo_text(1, 20'000)) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  EXPECT_EQ(hash, 7474902227322571597u);
}

TEST(DemoCorpus, FollowsItsSeed) {
  EXPECT_EQ(demo_text(7, 2'000), demo_text(7, 2'000));
  EXPECT_NE(demo_text(7, 2'000), demo_text(8, 2'000));
}

TEST(DemoCorpus, LooksLikeWikiText) {
  const std::string text = demo_text(1, 20'000);
  EXPECT_THAT(text, StartsWith(" \n = "));
  for (const char* mark : {" \n = = History = = \n \n", " <unk> ", " @-@ ", " @,@ ", " @.@ "})
    EXPECT_THAT(text, HasSubstr(mark));
  for (const char* left_over : {"$", "~", "{", "}", "|", "  ", "\n\n"}) EXPECT_THAT(text, Not(HasSubstr(left_over)));
}

TEST(DemoCorpus, KeepsToOnePronounWithinAnArticle) {
  const std::string text = demo_text(1, 50'000);
  std::size_t seen = 0;
  for (std::size_t at = text.find(" = = Life = = "); at != std::string::npos;
       at = text.find(" = = Life = = ", at + 1)) {
    const std::string life = text.substr(at, text.find(" = = Music = = ", at) - at);
    const bool he = life.find(" he ") != life.npos || life.find(" He ") != life.npos || life.find(" his ") != life.npos;
    const bool she = life.find(" she ") != life.npos || life.find(" She ") != life.npos;
    EXPECT_FALSE(he && she) << life;
    ++seen;
  }
  EXPECT_GT(seen, 10u);
}

TEST(DemoCorpus, HardlyHoldsWordsThatTrainingNeverSees) {
  const Corpus corpus = demo_corpus();
  const auto most = *std::max_element(corpus.train.begin(), corpus.train.end());
  const auto unseen =
      std::count_if(corpus.valid.begin(), corpus.valid.end(), [&](std::int32_t id) { return id > most; });
  EXPECT_LE(unseen, 8);
}

// A table of word pairs alone reaches less than half of ln(vocabulary), so a transformer that trains must too.
TEST(DemoCorpus, IsEasyToPredict) {
  const Corpus corpus = demo_corpus();
  std::map<std::pair<int, int>, double> pairs;
  std::map<int, double> firsts;
  for (std::size_t i = 1; i < corpus.train.size(); ++i) {
    ++pairs[{corpus.train[i - 1], corpus.train[i]}];
    ++firsts[corpus.train[i - 1]];
  }
  const auto words = static_cast<double>(corpus.vocab.size());
  double loss = 0;
  for (std::size_t i = 1; i < corpus.valid.size(); ++i) {
    const double pair = pairs[{corpus.valid[i - 1], corpus.valid[i]}];
    loss -= std::log((pair + 0.01) / (firsts[corpus.valid[i - 1]] + 0.01 * words));
  }
  EXPECT_LT(loss / static_cast<double>(corpus.valid.size() - 1), 0.5 * std::log(words));
}

}  // namespace
}  // namespace etna::data
