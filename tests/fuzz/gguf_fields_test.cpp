#include <gtest/gtest.h>

#include <fuzz/targets.h>
#include <io/gguf_bytes.h>

namespace etna::fuzz {
namespace {

bool sound(const std::string& bytes) { return gguf(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()); }

TEST(DamagedGguf, IsRefusedWhereverItIsCut) {
  const std::string whole = io::small_gguf().text;
  ASSERT_TRUE(sound(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) EXPECT_FALSE(sound(whole.substr(0, length))) << length;
}

TEST(DamagedGguf, NeverCrashesWithAFieldAtItsLimits) {
  const io::GgufBytes whole = io::small_gguf();
  int refusals = 0, tried = 0;
  for (const io::GgufBytes::Field& field : whole.fields) {
    for (const std::uint64_t value :
         {0ull, 1ull, 2ull, 9ull, 0x7full, 0xffull, 0x7fffull, 0xffffull, 0x7fffffffull, 0x80000000ull, 0xffffffffull,
          0x100000000ull, 1ull << 60, 0x7fffffffffffffffull, 0x8000000000000000ull, ~0ull, ~0ull - 31}) {
      std::string bytes = whole.text;
      std::memcpy(bytes.data() + field.at, &value, field.size);
      refusals += sound(bytes) ? 0 : 1;
      ++tried;
    }
  }
  EXPECT_GT(tried, 500);
  EXPECT_GT(refusals, tried / 2);
}

}  // namespace
}  // namespace etna::fuzz
