#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/serve/answer_stream.h>
#include <etna/serve/fair_queue.h>

namespace etna::serve {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

std::vector<int> all_of(FairQueue<int>& queue) {
  std::vector<int> all;
  while (const auto next = queue.pop()) all.push_back(*next);
  return all;
}

TEST(FairQueue, GivesClientsTurnsHoweverMuchEachHasQueued) {
  FairQueue<int> queue;
  for (int i = 0; i < 4; ++i) queue.push(i, "a");
  queue.push(10, "b");
  queue.push(11, "b");
  queue.push(20, "c");
  EXPECT_EQ(queue.size(), 7u);
  EXPECT_THAT(all_of(queue), ElementsAre(0, 10, 20, 1, 11, 2, 3));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, OrdersOneClientsByPriorityThenAge) {
  FairQueue<int> queue;
  queue.push(1, "a", 0);
  queue.push(2, "a", 5);
  queue.push(3, "a", -5);
  queue.push(4, "a", 0);
  queue.push(9, "b", 100);
  EXPECT_THAT(all_of(queue), ElementsAre(3, 9, 1, 4, 2));
}

TEST(FairQueue, ForgetsWhatIsRemoved) {
  FairQueue<int> queue;
  for (int i = 0; i < 6; ++i) queue.push(i, i % 2 == 0 ? "a" : "b");
  std::vector<int> removed;
  queue.remove_if([](int i) { return i % 2 == 0; }, [&](int i) { removed.push_back(i); });
  EXPECT_THAT(removed, ElementsAre(0, 2, 4));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_THAT(all_of(queue), ElementsAre(1, 3, 5));
}

TEST(AnswerStream, JoinsTextThatNobodyHasTaken) {
  AnswerStream stream(1);
  stream.push({.text = "a"});
  stream.push({.text = "b"});
  stream.push({.kind = EventKind::finish});
  EXPECT_EQ(stream.next(0ms)->text, "ab");
  EXPECT_FALSE(stream.ended());
  EXPECT_EQ(stream.next(0ms)->kind, EventKind::finish);
  EXPECT_TRUE(stream.ended());
  EXPECT_EQ(stream.next(10s), std::nullopt) << "it must not wait at the end";
}

TEST(AnswerStream, KeepsChoicesApart) {
  AnswerStream stream(2);
  stream.push({.choice = 0, .text = "a"});
  stream.push({.choice = 1, .text = "b"});
  stream.push({.kind = EventKind::finish, .choice = 0});
  EXPECT_EQ(stream.next(0ms)->text, "a");
  EXPECT_EQ(stream.next(0ms)->text, "b");
  stream.next(0ms);
  EXPECT_FALSE(stream.ended());
}

TEST(AnswerStream, NoticesAReaderThatTakesNothing) {
  AnswerStream stream(1);
  stream.push({.text = "a"});
  EXPECT_EQ(stream.stalled(), 0s);
  stream.push({.text = std::string(5000, 'a')});
  std::this_thread::sleep_for(5ms);
  EXPECT_GE(stream.stalled(), 5ms);
  stream.next(0ms);
  EXPECT_EQ(stream.stalled(), 0s);
}

TEST(AnswerStream, WakesWhoWaitsForTheFinishOnce) {
  using namespace std::chrono_literals;
  AnswerStream stream(2);
  stream.wait_for_finish();
  const auto text = [&](std::int64_t choice, const char* piece) {
    stream.push({.kind = EventKind::text, .choice = choice, .text = piece});
  };
  text(0, "a");
  text(0, "b");
  text(1, "c");
  const auto begin = std::chrono::steady_clock::now();
  std::optional<AnswerEvent> event = stream.next(30ms);  // the time is over: what is there is given
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->text, "ab");
  text(0, "d");
  stream.push({.kind = EventKind::finish, .choice = 0});
  std::string seen;
  for (int i = 0; i < 3; ++i) {
    event = stream.next(1h);
    ASSERT_TRUE(event);
    seen += event->kind == EventKind::finish ? "." : event->text;
  }
  EXPECT_EQ(seen, "cd.");
  EXPECT_FALSE(stream.next(1ms));
  stream.push({.kind = EventKind::finish, .choice = 1});
  ASSERT_TRUE(stream.next(1h));
  EXPECT_TRUE(stream.ended());
}

}  // namespace
}  // namespace etna::serve
