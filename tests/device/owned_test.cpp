#include <etna/device/owned.h>

#include <memory>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

namespace etna {
namespace {

struct Counted {
  explicit Counted(int& alive) : alive(alive) { ++alive; }
  ~Counted() { --alive; }
  int& alive;
};

TEST(Owned, DeletesWhatItPointsToOnce) {
  int alive = 0;
  {
    Owned<Counted> first = std::make_unique<Counted>(alive);
    Owned<Counted> second(new Counted(alive));
    EXPECT_EQ(alive, 2);
    second = std::move(first);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(first, nullptr);
    Owned<Counted>& same = second;
    second = std::move(same);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(&second->alive, &alive);
    second.reset();
    EXPECT_EQ(alive, 0);
    second = std::make_unique<Counted>(alive);
    EXPECT_TRUE(second);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Owned, MovesOnly) {
  static_assert(!std::is_copy_constructible_v<Owned<int>> && !std::is_constructible_v<Owned<int>, Owned<int>&>);
  static_assert(!std::is_constructible_v<Owned<int>, std::unique_ptr<int>&>);
  static_assert(std::is_nothrow_move_constructible_v<Owned<int>> && std::is_nothrow_move_assignable_v<Owned<int>>);
}

}  // namespace
}  // namespace etna
