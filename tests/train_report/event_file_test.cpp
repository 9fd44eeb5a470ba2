#include <cmath>
#include <fstream>
#include <limits>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <data/temporary_folder.h>
#include <etna/device/error.h>
#include <etna/train/internal/event_file.h>
#include <etna/train/internal/read_bytes.h>

namespace etna::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

TEST(EventFile, ChecksumsAreCrc32c) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(EventFile, BeginsWithItsVersionAndAStart) {
  TemporaryFolder folder;
  EventFileWriter writer(folder.path(), 120);
  const std::string name = std::filesystem::path(writer.path()).filename().string();
  EXPECT_TRUE(std::regex_match(name, std::regex("events\\.out\\.tfevents\\.[0-9]{10}\\..+"))) << name;
  const EventFile file = read_event_file(writer.path());
  ASSERT_EQ(file.events.size(), 2u);
  EXPECT_EQ(file.events[0].file_version, "brain.Event:2");
  EXPECT_GT(file.events[0].wall_time, 1.6e9);
  EXPECT_TRUE(file.events[1].session_start);
  EXPECT_EQ(file.events[1].step, 120);
  // Length 24, its checksum, wall_time as a double, file_version of 13 bytes: the layout that TensorBoard reads.
  const std::string bytes = read_bytes(writer.path());
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes[12], '\x09');
  EXPECT_EQ(bytes.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFile, ScalarsReadBack) {
  TemporaryFolder folder;
  EventFileWriter writer(folder.path());
  const double inf = std::numeric_limits<double>::infinity();
  writer.scalars(0, {{"loss", 3.5}}, 1.5e9);
  writer.scalars(1'000'000'000'000, {{"loss", 0.1}, {"größe", -inf}, {"nan", std::nan("")}}, 1.5e9 + 0.25);
  const EventFile file = read_event_file(writer.path());
  ASSERT_EQ(file.events.size(), 4u);
  EXPECT_FALSE(file.cut);
  EXPECT_EQ(file.events[2].step, 0);
  EXPECT_THAT(file.events[2].scalars, ElementsAre(Pair("loss", 3.5f)));
  EXPECT_EQ(file.events[3].step, 1'000'000'000'000);
  EXPECT_EQ(file.events[3].wall_time, 1.5e9 + 0.25);
  ASSERT_EQ(file.events[3].scalars.size(), 3u);
  EXPECT_EQ(file.events[3].scalars[0].second, 0.1f);
  EXPECT_THAT(file.events[3].scalars[1], Pair("größe", -inf));
  EXPECT_TRUE(std::isnan(file.events[3].scalars[2].second));
}

TEST(EventFile, LaterFilesHaveLaterNames) {
  TemporaryFolder folder;
  folder.write("events.out.tfevents.5000000000.elsewhere", "");  // of a clock in the future
  std::string last;
  for (int i = 0; i < 3; ++i) {
    EventFileWriter writer(folder.path());
    const std::string name = writer.path().string();
    EXPECT_GT(name, last);
    last = name;
  }
  EXPECT_THAT(last, HasSubstr("tfevents.5000000003."));
}

TEST(EventFile, ACutLastRecordIsLeftOut) {
  TemporaryFolder folder;
  EventFileWriter writer(folder.path());
  writer.scalars(1, {{"loss", 1}}, 0);
  const std::string whole = read_bytes(writer.path());
  writer.scalars(2, {{"loss", 2}}, 0);
  const std::string all = read_bytes(writer.path());
  for (std::size_t size = whole.size(); size < all.size(); ++size) {
    const EventFile file = read_event_file(folder.write("cut", std::string_view(all).substr(0, size)));
    EXPECT_EQ(file.events.size(), 3u);
    EXPECT_EQ(file.cut, size > whole.size());
  }
}

TEST(EventFile, EveryChangedByteIsNoticed) {
  TemporaryFolder folder;
  EventFileWriter writer(folder.path());
  writer.scalars(1, {{"loss", 1}}, 0);
  const std::string good = read_bytes(writer.path());
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    EXPECT_THAT([&] { read_event_file(folder.write("bad", bad)); }, ThrowsMessage<FormatError>(HasSubstr("checksum")))
        << at;
  }
}

TEST(EventFile, RecordsThatAreNoEventsAreRefused) {
  TemporaryFolder folder;
  const auto framed = [](std::string_view event) {
    const auto fixed = [](std::uint64_t value, int bytes) {
      std::string out;
      for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
      return out;
    };
    const auto masked = [](std::string_view bytes) {
      const std::uint32_t crc = crc32c(bytes);
      return static_cast<std::uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u);
    };
    const std::string length = fixed(event.size(), 8);
    return length + fixed(masked(length), 4) + std::string(event) + fixed(masked(event), 4);
  };
  const std::string longer_than_all("\x2a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  for (const std::string& event :
       {std::string("\x09\x00", 2), std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x07"),
        longer_than_all, std::string("\x2a\x02\x0a\x05")}) {
    EXPECT_THAT([&] { read_event_file(folder.write("bad", framed(event))); },
                ThrowsMessage<FormatError>(HasSubstr("no event")));
  }
  // Fields of later versions are skipped.
  EXPECT_EQ(read_event_file(folder.write("good", framed("\x10\x05\x7a\x01z"))).events.at(0).step, 5);
  EXPECT_THAT([&] { read_event_file(folder / "none"); }, ThrowsMessage<FormatError>(HasSubstr("does not exist")));
  EXPECT_THAT([&] { read_event_file(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("not a regular file")));
}

}  // namespace
}  // namespace etna::training
