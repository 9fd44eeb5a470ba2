#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <etna/data/tokenizers/stream_decoder.h>

namespace etna::data {
namespace {

/// The text that is shown of a stream with chunks of one size, with "|" where it was stopped.
std::string shown(const std::vector<std::string>& words, const std::string& text, std::size_t size) {
  StopWords stops(words);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) {
    out += stops.push(text.substr(at, size));
    EXPECT_EQ(text.substr(0, out.size()), out);
  }
  out += stops.finish();
  return stops.stopped() ? out + "|" : out;
}

TEST(StopWords, EndATextBeforeTheFirstOfThem) {
  struct Case {
    std::vector<std::string> words;
    std::string text, wanted;
  };
  const std::vector<Case> cases = {
      {{}, "all of it", "all of it"},
      {{""}, "an empty word stops nothing", "an empty word stops nothing"},
      {{"end"}, "the end of it", "the |"},
      {{"end"}, "the en", "the en"},
      {{"end"}, "end", "|"},
      {{"\n\n", "User:"}, "a\nb\n\nUser:", "a\nb|"},
      {{"aab"}, "aaaab", "aa|"},
      {{"abc", "b"}, "xabc", "xa|"},
      {{"b", "ab"}, "xab", "x|"},
      {{"abab"}, "ababa", "|"},
      {{"é"}, "cafés", "caf|"},
      {{"twice", "twice"}, "twice twice", "|"},
  };
  for (const auto& [words, text, wanted] : cases)
    for (std::size_t size = 1; size <= text.size(); ++size)
      EXPECT_EQ(shown(words, text, size), wanted) << text << " in pieces of " << size;
}

TEST(StopWords, HoldBackOnlyWhatMayBeginOne) {
  StopWords stops({"\nUser:", "</s>"});
  EXPECT_EQ(stops.push("Hello"), "Hello");
  EXPECT_EQ(stops.push("\nUs"), "");
  EXPECT_EQ(stops.push("ually <"), "\nUsually ");
  EXPECT_EQ(stops.push("b>"), "<b>");
  EXPECT_EQ(stops.push("\n"), "");
  EXPECT_EQ(stops.finish(), "\n");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopWords, GiveNothingBehindOne) {
  StopWords stops({"stop"});
  EXPECT_EQ(stops.push("go, stop, go"), "go, ");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

}  // namespace
}  // namespace etna::data
