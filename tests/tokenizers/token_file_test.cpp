#include <etna/data/token_file.h>

#include <fstream>
#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/data/batches.h>
#include <etna/device/error.h>
#include <etna/tensor/io/internal/xxh3.h>

namespace etna::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;

Ids counting(std::int32_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TokenFile write(const std::filesystem::path& file, const Ids& ids, std::int64_t vocabulary) {
  TokenFileWriter writer(file, vocabulary, 0x1234);
  const std::span<const std::int32_t> all = ids;
  writer.append(all.first(ids.size() / 3));
  writer.append(all.subspan(ids.size() / 3));
  writer.finish();
  return TokenFile(file);
}

std::string bytes_of(const std::filesystem::path& file) {
  std::stringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

TEST(TokenFile, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  for (const std::int64_t vocabulary : {1000, 65536, 65537, INT32_MAX}) {
    const TokenFile file = write(folder / "ids", counting(1000), vocabulary);
    EXPECT_EQ(file.width(), vocabulary <= 65536 ? 2 : 4);
    EXPECT_EQ(file.size(), 1000);
    EXPECT_EQ(file.vocabulary(), vocabulary);
    EXPECT_EQ(file.tokenizer_hash(), 0x1234u);
    file.verify();
    Ids some(10);
    file.ids(990, 10, some.data());
    EXPECT_EQ(some.back(), 999);
    EXPECT_EQ(vocabulary <= 65536 ? file.ids16()[7] : file.ids32()[7], 7u);
    if (vocabulary <= 65536)
      EXPECT_THROW(file.ids32(), FormatError);
    else
      EXPECT_THROW(file.ids16(), FormatError);
  }
  const TokenFile none = write(folder / "none", {}, 0);
  EXPECT_EQ(none.size(), 0);
  none.verify();
  none.ids(0, 0, nullptr);
}

TEST(TokenFile, RefusesPlacesOutside) {
  TemporaryFolder folder;
  const TokenFile file = write(folder / "ids", counting(9), 9);
  Ids out(16);
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(file.ids(-1, 1, out.data()), IndexError);
  EXPECT_THROW(file.ids(0, 10, out.data()), IndexError);
  EXPECT_THROW(file.ids(9, 1, out.data()), IndexError);
  EXPECT_THROW(file.ids(1, most, out.data()), IndexError);
  EXPECT_THROW(file.ids(most, 1, out.data()), IndexError);
  EXPECT_THROW(file.ids(0, -1, out.data()), IndexError);
}

TEST(TokenFile, RefusesEveryTruncationAndEveryChangedByte) {
  TemporaryFolder folder;
  write(folder / "ids", counting(20), 20);
  const std::string whole = bytes_of(folder / "ids");
  ASSERT_EQ(whole.size(), 16u + 2 * 20 + 64);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(TokenFile(folder.write("cut", whole.substr(0, size))), FormatError) << size;
  EXPECT_THROW(TokenFile(folder.write("longer", whole + "x")), FormatError);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    EXPECT_THROW(TokenFile(folder.write("bad", bad)).verify(), FormatError) << at;
  }
}

TEST(TokenFile, RefusesFieldsAtTheirLimitsEvenWithTheRightHash) {
  TemporaryFolder folder;
  write(folder / "ids", counting(20), 20);
  const std::string whole = bytes_of(folder / "ids");
  const std::size_t trailer = whole.size() - 64;
  const auto forge = [&](std::size_t field, const void* value, std::size_t size) {
    std::string bad = whole;
    bad.replace(trailer + field, size, static_cast<const char*>(value), size);
    io::Xxh3 hash;
    hash.add(bad.data() + trailer, 48);
    const std::uint64_t sum = hash.value();
    bad.replace(trailer + 48, 8, reinterpret_cast<const char*>(&sum), 8);
    return folder.write("forged", bad);
  };
  for (const std::uint32_t value : {0u, 2u, 0xFFFFFFFFu})
    EXPECT_THAT([&] { TokenFile file(forge(0, &value, 4)); }, ThrowsMessage<FormatError>(HasSubstr("version")));
  for (const std::uint32_t width : {0u, 1u, 3u, 4u, 8u, 0xFFFFFFFFu})
    EXPECT_THROW(TokenFile(forge(4, &width, 4)), FormatError) << width;
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{19}, std::uint64_t{21}, ~std::uint64_t{0}, (std::uint64_t{1} << 63) + 20})
    EXPECT_THROW(TokenFile(forge(8, &size, 8)), FormatError) << size;
  for (const std::uint64_t vocabulary : {std::uint64_t{0}, std::uint64_t{19}, std::uint64_t{65537}, ~std::uint64_t{0}})
    EXPECT_THROW(TokenFile(forge(16, &vocabulary, 8)).verify(), FormatError) << vocabulary;
}

TEST(TokenFile, RefusesOtherFilesAndOtherTokenizers) {
  TemporaryFolder folder;
  EXPECT_THAT([&] { TokenFile file(folder.write("text", std::string(200, 'x'))); },
              ThrowsMessage<FormatError>(HasSubstr("not an Etna token file")));
  EXPECT_THROW(TokenFile(folder / "missing"), FormatError);
  EXPECT_THROW(TokenFile(folder.path()), FormatError);
  const TokenFile file = write(folder / "ids", counting(9), 9);
  file.require_tokenizer(0x1234);
  EXPECT_THROW(file.require_tokenizer(0x1235), FormatError);
}

TEST(TokenFileWriter, LeavesNothingUnlessFinished) {
  TemporaryFolder folder;
  write(folder / "ids", counting(9), 9);
  const std::string before = bytes_of(folder / "ids");
  {
    TokenFileWriter writer(folder / "ids", 5, 1);
    writer.append(counting(5));
    EXPECT_THROW(writer.append(Ids{5}), FormatError);
    EXPECT_THROW(writer.append(Ids{-1}), FormatError);
  }
  EXPECT_EQ(bytes_of(folder / "ids"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(TokenFileWriter(folder / "no" / "ids", 5, 1), FormatError);
  EXPECT_THROW(TokenFileWriter(folder / "ids", -1, 1), FormatError);
}

TEST(TokenFile, GivesTheBatchesOfIdsInMemory) {
  TemporaryFolder folder;
  const Ids ids = counting(101);
  for (const std::int64_t vocabulary : {101, 70000}) {
    const TokenFile file = write(folder / "ids", ids, vocabulary);
    const StreamBatches memory(ids, 4, 6), disk(file, 4, 6);
    ASSERT_EQ(disk.steps(), memory.steps());
    for (std::int64_t step = 0; step < memory.steps(); ++step) {
      const Batch a = make_batch(memory, step), b = make_batch(disk, step);
      EXPECT_EQ(a.x.to_vector<std::int32_t>(), b.x.to_vector<std::int32_t>());
      EXPECT_EQ(a.y.to_vector<std::int32_t>(), b.y.to_vector<std::int32_t>());
    }
    ResidentBatches one(memory, Device{}), two(disk, Device{});
    EXPECT_EQ(one.next().y.to_vector<std::int32_t>(), two.next().y.to_vector<std::int32_t>());
    EXPECT_THROW(disk.ids(), FormatError);
    EXPECT_THROW(disk.read(99, 2, nullptr), ShapeError);
    EXPECT_THROW(StreamBatches(file, 4, 30), FormatError);
  }
}

}  // namespace
}  // namespace etna::data
