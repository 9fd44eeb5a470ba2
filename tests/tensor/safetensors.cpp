#include <algorithm>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "data/temporary_folder.h"
#include "runner/system_words.h"
#include "tensor/file_bytes.h"

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A file with this header and this many bytes of data.
std::string file_of(std::string_view header, std::size_t data_bytes) {
  std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes.append(header).append(data_bytes, '\1');
}

std::vector<std::byte> raw(const Tensor& x) {
  Tensor host = x.contiguous();
  const auto* begin = static_cast<const std::byte*>(host.raw_data());
  return {begin, begin + static_cast<std::size_t>(host.numel()) * item_size(host.dtype())};
}

TEST(Safetensors, EveryDtypeAndShapeComesBack) {
  TemporaryFolder folder;
  std::map<std::string, Tensor> saved;
  for (DType t : kAllDTypes) {
    std::string dtype(name(t));
    saved[dtype + ".matrix"] = arange(0, 15).reshape({3, 5}).to(t);
    saved[dtype + ".number"] = scalar(1, {t});
    saved[dtype + ".empty"] = empty({0, 4}, {t});
    saved[dtype + ".view"] = arange(0, 12).reshape({3, 4}).t().slice(0, 1, 3).to(t);
  }
  saved["nan"] = full({2}, std::nan(""));
  Metadata metadata{{"format", "etna"}, {"quote \" and ü", "line\nbreak"}};
  save_safetensors(folder / "model.safetensors", saved, metadata);
  std::map<std::string, Tensor> loaded = load_safetensors(folder / "model.safetensors");
  ASSERT_EQ(loaded.size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    ASSERT_TRUE(loaded.contains(name)) << name;
    EXPECT_EQ(loaded[name].dtype(), tensor.dtype()) << name;
    EXPECT_EQ(loaded[name].shape(), tensor.shape()) << name;
    EXPECT_EQ(raw(loaded[name]), raw(tensor)) << name;
  }
  EXPECT_EQ(load_safetensors_metadata(folder / "model.safetensors"), metadata);
}

TEST(Safetensors, WritesWhatTheFormatSays) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", NamedTensors{{"b", from_vector(std::vector<std::uint8_t>{1, 2, 3})},
                                              {"w", from_vector(std::vector<float>{1.5})}});
  std::string header =
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::uint64_t length = header.size();
  std::string want(reinterpret_cast<const char*>(&length), 8);
  want += header + std::string("\0\0\xc0\x3f\1\2\3", 7);
  EXPECT_EQ(bytes_of(folder / "f"), want);
}

TEST(Safetensors, GoesToAndComesFromAGpu) {
  if (std::getenv("ETNA_TEST_VULKAN") == nullptr) GTEST_SKIP() << "ETNA_TEST_VULKAN is not set";
  TemporaryFolder folder;
  Tensor x = arange(0, 6).to(f32).reshape({2, 3});
  save_safetensors(folder / "f", NamedTensors{{"x", x.to(kVulkan).t()}});
  Tensor y = load_safetensors(folder / "f", kVulkan).at("x");
  EXPECT_EQ(y.device(), kVulkan);
  EXPECT_EQ(y.to_vector<float>(), x.t().to_vector<float>());
}

TEST(Safetensors, AFileOfNoTensorsIsAFile) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", NamedTensors{});
  EXPECT_TRUE(load_safetensors(folder / "f").empty());
}

struct Damage {
  const char* header;
  std::size_t data_bytes;
  const char* message;
};

TEST(Safetensors, EveryMalformedHeaderIsRefusedInWords) {
  TemporaryFolder folder;
  const Damage damages[] = {
      {"{", 0, "is not valid JSON"},
      {"", 0, "is not valid JSON"},
      {"{} {}", 0, "is not valid JSON"},
      {"\xff\xfe", 0, "is not valid JSON"},
      {"[]", 0, "the header is a list; wanted a JSON object"},
      {"null", 0, "the header is null"},
      {"7", 0, "the header is a number"},
      {R"({"a":1})", 0, "'a' is a number; wanted an object"},
      {R"({"a":[]})", 0, "'a' is a list; wanted an object"},
      {R"({"a":{}})", 0, "tensor 'a' has no dtype"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor 'a' has no data_offsets"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "tensor 'a' has no shape"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "tensor 'a' has no dtype"},
      {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", 4, "has a number as dtype; wanted a string"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4, "has dtype 'F8_E4M3'; known are F64, F32"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "has a number as shape; wanted a list"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "has the negative number -1 as an element of shape"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "has the number 1.5 as an element of shape"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "has a string as an element of shape"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "has a list as an element of shape"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "more than 8 numbers in shape"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "too large for memory"},
      {R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0, "too large for memory"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0, "too large for memory"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,0]}})", 0,
       "has the number 99999999999999999999"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "has 1 data_offsets; wanted two"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "has 3 data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "ends at 0, before it begins at 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8, "has 8 bytes, but F32 of shape [1] takes 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
       "ends at byte 8 of the data, but the file holds 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]}})", 4, "before it begins"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "begins at byte 4 of the data, but 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       6, "tensor 'b' begins at byte 2 of the data, but 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "begins at byte 0 of the data, but 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 9, "5 bytes after the last tensor belong to none"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "'a' occurs twice in the header"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "tensor 'a' has 'dtype' twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":{}}})", 4, "has a field 'x'"},
      {R"({"__metadata__":{"a":1}})", 0, "metadata 'a' is a number; wanted a string"},
      {R"({"__metadata__":{"a":{}}})", 0, "metadata 'a' is an object"},
      {R"({"__metadata__":{"a":"x","a":"y"}})", 0, "'a' occurs twice in the metadata"},
      {R"({"__metadata__":[]})", 0, "'__metadata__' is a list"},
  };
  for (const Damage& damage : damages) {
    auto path = folder.write("damaged", file_of(damage.header, damage.data_bytes));
    EXPECT_THAT([&] { load_safetensors(path); }, ThrowsMessage<FormatError>(HasSubstr(damage.message)))
        << damage.header;
  }
}

TEST(Safetensors, WhatIsNoFileOfTheKindIsRefused) {
  TemporaryFolder folder;
  auto refused = [](const std::filesystem::path& path, const std::string& message) {
    EXPECT_THAT([&] { load_safetensors(path); }, ThrowsMessage<FormatError>(HasSubstr(message)));
    EXPECT_THAT([&] { load_safetensors_metadata(path); }, ThrowsMessage<FormatError>(HasSubstr(path.string())));
  };
  refused(folder / "missing", std::string("missing: cannot be opened: ") + kNoSuchFile);
  refused(folder.path(), "is a directory");
  refused("/dev/null", "not a regular file");
  refused(folder.write("empty", ""), "is empty");
  refused(folder.write("short", "abc"), "is 3 bytes long, too short");
  refused(folder.write("text", "this is some text"), "claims a header of");
  std::string cut = file_of("{}", 0);
  cut[0] = 100;
  refused(folder.write("cut", cut), "claims a header of 100 bytes, but only 2 follow");
}

TEST(Safetensors, NoDamageCrashes) {
  TemporaryFolder folder;
  save_safetensors(
      folder / "valid",
      NamedTensors{{"weight", randn({7, 5})}, {"bias", ones({5}, {bf16})}, {"mask", zeros({3}, {boolean})}},
      {{"format", "etna"}});
  std::string valid = bytes_of(folder / "valid");
  std::mt19937 bits(1);
  int loaded = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = valid;
    // Mostly in the header, where damage is dangerous.
    std::size_t reach = bits() % 4 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 220);
    for (unsigned flips = 1 + bits() % 3; flips > 0; --flips) {
      char& byte = bytes[bits() % reach];
      byte = bits() % 2 == 0 ? static_cast<char>(byte ^ (1 << bits() % 8)) : static_cast<char>(bits());
    }
    if (bits() % 5 == 0) bytes.resize(bits() % bytes.size());
    auto path = folder.write("damaged", bytes);
    try {
      for (const auto& [name, tensor] : load_safetensors(path))
        EXPECT_EQ(tensor.numel(), numel(tensor.shape())) << name;
      ++loaded;
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 1000);
}

TEST(Safetensors, ABoolThatIsNeitherZeroNorOneIsTrue) {
  TemporaryFolder folder;
  std::string bytes = file_of(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  bytes.back() = '\x80';
  Tensor m = load_safetensors(folder.write("f", bytes)).at("m");
  EXPECT_EQ(raw(m), (std::vector<std::byte>{std::byte{1}, std::byte{1}}));
}

TEST(Safetensors, AMissingFolderIsAnError) {
  TemporaryFolder folder;
  EXPECT_THAT(
      [&] {
        save_safetensors(folder / "no/such/file", NamedTensors{{"x", ones({3})}});
      },
      ThrowsMessage<FormatError>(HasSubstr(std::string("cannot be written: ") + kNoSuchFile)));
  EXPECT_THAT(
      [&] {
        save_safetensors(folder.path(), NamedTensors{{"x", ones({3})}});
      },
      ThrowsMessage<FormatError>(HasSubstr("cannot be written")));
}

TEST(Safetensors, NamesAreTakenOnce) {
  TemporaryFolder folder;
  EXPECT_THAT(
      [&] {
        save_safetensors(folder / "f", NamedTensors{{"x", ones({3})}, {"x", ones({3})}});
      },
      ThrowsMessage<FormatError>(HasSubstr("'x' cannot name a tensor: it is given twice")));
  EXPECT_THAT(
      [&] {
        save_safetensors(folder / "f", NamedTensors{{"__metadata__", ones({3})}});
      },
      ThrowsMessage<FormatError>(HasSubstr("reserved")));
  EXPECT_EQ(files_in(folder), 0U);
}

}  // namespace
}  // namespace etna
