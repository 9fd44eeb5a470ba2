#include <gtest/gtest.h>

#include <etna/etna.h>
#include <etna/tensor/io/gguf.h>
#include <io/gguf_bytes.h>

#include "tensor/file_bytes.h"

namespace etna::io {
namespace {

/// Reads all that a file offers.
void read_all(const std::filesystem::path& path) {
  const GgufFile gguf(path);
  for (const GgufEntry& entry : gguf.metadata()) EXPECT_LT(entry.value.str().size(), 4096u);
  for (const GgufTensor& tensor : gguf.tensors()) gguf.load(tensor);
}

bool refused(const std::string& bytes, const TemporaryFolder& folder) {
  const std::filesystem::path path = folder.write("damaged.gguf", bytes);
  try {
    read_all(path);
  } catch (const FormatError& error) {
    EXPECT_EQ(std::string(error.what()).rfind(path.string() + ": ", 0), 0u) << error.what();
    return true;
  }
  return false;
}

TEST(DamagedGguf, IsRefusedWhereverItIsCut) {
  const TemporaryFolder folder;
  const std::string whole = small_gguf().text;
  ASSERT_FALSE(refused(whole, folder));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_TRUE(refused(whole.substr(0, length), folder)) << length;
}

TEST(DamagedGguf, NeverCrashesWithAFieldAtItsLimits) {
  const TemporaryFolder folder;
  const GgufBytes whole = small_gguf();
  int refusals = 0, tried = 0;
  for (const GgufBytes::Field& field : whole.fields) {
    for (const std::uint64_t value :
         {0ull, 1ull, 2ull, 9ull, 0x7full, 0xffull, 0x7fffull, 0xffffull, 0x7fffffffull, 0x80000000ull, 0xffffffffull,
          0x100000000ull, 1ull << 60, 0x7fffffffffffffffull, 0x8000000000000000ull, ~0ull, ~0ull - 31}) {
      std::string bytes = whole.text;
      std::memcpy(bytes.data() + field.at, &value, field.size);
      refusals += refused(bytes, folder) ? 1 : 0;
      ++tried;
    }
  }
  EXPECT_GT(tried, 500);
  EXPECT_GT(refusals, tried / 2);
}

TEST(DamagedGguf, NeverCrashesWithRandomBytes) { expect_safe_on_damage(small_gguf().text, read_all); }

}  // namespace
}  // namespace etna::io
