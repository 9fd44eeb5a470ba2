#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/etna.h>
#include <etna/tensor/io/gguf.h>
#include <io/gguf_bytes.h>

#include "data/temporary_folder.h"
#include "io/refusal.h"

namespace etna::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Gguf, ReadsMetadataOfEveryType) {
  const TemporaryFolder folder;
  GgufBytes file;
  file.head(3, 0, 15);
  file.string("u8").u32(0).number(std::uint8_t{255});
  file.string("i8").u32(1).number(std::int8_t{-128});
  file.string("u16").u32(2).number(std::uint16_t{65535});
  file.string("i16").u32(3).number(std::int16_t{-32768});
  file.string("u32").u32(4).number(std::uint32_t{4294967295u});
  file.string("i32").u32(5).number(std::int32_t{-5});
  file.string("f32").u32(6).number(0.5f);
  file.string("yes").u32(7).number(std::uint8_t{1});
  file.string("text").u32(8).string("a\xff\0b");
  file.string("u64").u32(10).u64(std::numeric_limits<std::uint64_t>::max());
  file.string("i64").u32(11).number(std::int64_t{-6});
  file.string("f64").u32(12).number(0.1);
  file.string("words").u32(9).u32(8).u64(2).string("one").string("");
  file.string("bools").u32(9).u32(7).u64(2).number(std::uint8_t{0}).number(std::uint8_t{1});
  file.string("none").u32(9).u32(6).u64(0);
  const GgufFile gguf(folder.write("all.gguf", file.text));
  EXPECT_EQ(gguf.metadata().size(), 15u);
  EXPECT_EQ(gguf.metadata()[0].key, "u8");
  EXPECT_EQ(gguf.integer("u8"), 255);
  EXPECT_EQ(gguf.integer("i8"), -128);
  EXPECT_EQ(gguf.integer("u16"), 65535);
  EXPECT_EQ(gguf.integer("i16"), -32768);
  EXPECT_EQ(gguf.integer("u32"), 4294967295);
  EXPECT_EQ(gguf.integer("i32"), -5);
  EXPECT_EQ(gguf.number("f32"), 0.5);
  EXPECT_EQ(gguf.number("i32"), -5);
  EXPECT_TRUE(gguf.boolean("yes"));
  EXPECT_EQ(gguf.string("text"), std::string("a\xff"));
  EXPECT_EQ(gguf.find("u64")->unsigned_integer(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(gguf.integer("i64"), -6);
  EXPECT_EQ(gguf.number("f64"), 0.1);
  EXPECT_THAT(gguf.strings("words"), ElementsAre("one", ""));
  EXPECT_EQ(gguf.find("bools")->str(), "[false, true]");
  EXPECT_TRUE(gguf.numbers("none").empty());
  EXPECT_EQ(gguf.integer("missing", 7), 7);
  EXPECT_EQ(gguf.string("missing", "x"), "x");
  EXPECT_EQ(gguf.find("text")->str(), "'a\\xff'");
}

TEST(Gguf, SaysWhichMetadataIsMissingOrOfAnotherType) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("small.gguf", small_gguf().text);
  const GgufFile gguf(path);
  EXPECT_EQ(refusal([&] { gguf.integer("b"); }), path.string() + ": has no metadata 'b'");
  EXPECT_THAT(refusal([&] { gguf.integer("general.architecture"); }),
              HasSubstr("metadata 'general.architecture' is 'test' (string); wanted an integer"));
  EXPECT_THAT(refusal([&] { gguf.integer("a.f32", 3); }), HasSubstr("is 0.5 (f32); wanted an integer"));
  EXPECT_THAT(refusal([&] { gguf.string("a.list"); }), HasSubstr("is a list of 3 i32; wanted a string"));
  EXPECT_THAT(refusal([&] { gguf.find("a.list")->unsigned_integer(); }), HasSubstr("wanted a nonnegative integer"));
  EXPECT_THAT(refusal([&] { gguf.strings("a.list"); }), HasSubstr("wanted a list of strings"));
}

TEST(Gguf, GivesTensorsWithTheOutermostDimensionFirst) {
  const TemporaryFolder folder;
  std::optional<MappedBytes> kept;
  {
    const GgufFile gguf(folder.write("small.gguf", small_gguf().text));
    ASSERT_EQ(gguf.tensors().size(), 2u);
    const GgufTensor& w = gguf.tensor("w");
    EXPECT_EQ(w.shape, Shape({2, 32}));
    EXPECT_EQ(w.format->name, "Q8_0");
    EXPECT_EQ(w.bytes, 68u);
    EXPECT_EQ(gguf.load("w").sum().item<float>(), 64.0f);
    EXPECT_EQ(gguf.load("v").to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(gguf.find_tensor("x"), nullptr);
    EXPECT_THAT(refusal([&] { gguf.tensor("x\n"); }), HasSubstr("has no tensor 'x\\x0a' among its 2"));
    kept = gguf.bytes("v");
  }
  // The view keeps the mapping.
  float value = 0;
  std::memcpy(&value, kept->data() + 12, sizeof value);
  EXPECT_EQ(value, 4.0f);
}

TEST(Gguf, RefusesOtherFilesAndVersionsInWords) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& bytes) {
    const std::filesystem::path path = folder.write("bad.gguf", bytes);
    const std::string text = refusal([&] { GgufFile{path}; });
    EXPECT_THAT(text, testing::StartsWith(path.string() + ": "));
    return text;
  };
  EXPECT_THAT(said(""), HasSubstr("is empty, not a GGUF file"));
  EXPECT_THAT(said("GG"), HasSubstr("is cut short"));
  EXPECT_THAT(said("GGML1234567890"), HasSubstr("does not begin with 'GGUF'"));
  EXPECT_THAT(said(GgufBytes().head(1, 0, 0).text), HasSubstr("is GGUF version 1, which is not supported"));
  EXPECT_THAT(said(GgufBytes().head(4, 0, 0).text), HasSubstr("is GGUF version 4; wanted 2 or 3"));
  EXPECT_THAT(said(GgufBytes().head(0x03000000, 0, 0).text), HasSubstr("big-endian"));
  EXPECT_THAT(said(GgufBytes().head(3, 0, std::uint64_t{1} << 60).text),
              HasSubstr("claims 1152921504606846976 entries of metadata, but only 0 bytes follow"));
  EXPECT_THAT(said(GgufBytes().head(3, std::uint64_t{1} << 60, 0).text), HasSubstr("tensors, but only 0 bytes follow"));
  EXPECT_THAT(refusal([&] { GgufFile{folder / "none.gguf"}; }), HasSubstr("cannot be opened"));
  EXPECT_THAT(refusal([&] { GgufFile{folder.path()}; }), HasSubstr("is a directory, not a GGUF file"));
}

TEST(Gguf, RefusesDamagedMetadata) {
  const TemporaryFolder folder;
  const auto said = [&](const std::function<void(GgufBytes&)>& entries, std::uint64_t count = 1) {
    GgufBytes file;
    file.head(3, 0, count);
    entries(file);
    const std::filesystem::path path = folder.write("bad.gguf", file.pad().text);
    return refusal([&] { GgufFile{path}; });
  };
  const std::string fill(64, '\0');
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("").u32(0).raw(fill); }), HasSubstr("metadata entry 0 is empty"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.u64(~0ull).raw(fill); }), HasSubstr("is cut short"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string(std::string(70000, 'k')).u32(0).raw(fill); }),
              HasSubstr("70000 bytes"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(13).raw(fill); }), HasSubstr("'k' has type 13"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(9).u32(9).u64(1).raw(fill); }), HasSubstr("a list of lists"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(9).u32(4).u64(1ull << 62).raw(fill); }),
              HasSubstr("claims 4611686018427387904 items of at least 4 bytes"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(9).u32(8).u64(1ull << 62).raw(fill); }),
              HasSubstr("items of at least 8 bytes"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(8).u64(1ull << 62).raw(fill); }), HasSubstr("cut short"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(7).raw("\2").raw(fill); }), HasSubstr("a bool of 2"));
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("k").u32(0).raw("a").string("k").u32(0).raw("b").raw(fill); }, 2),
              HasSubstr("metadata 'k' occurs twice"));
  for (const std::uint32_t alignment : {0u, 3u, 33u}) {
    EXPECT_THAT(said([&](GgufBytes& f) { f.string("general.alignment").u32(4).u32(alignment).raw(fill); }),
                HasSubstr("wanted a power of two"));
  }
  EXPECT_THAT(said([&](GgufBytes& f) { f.string("general.alignment").u32(8).string("32").raw(fill); }),
              HasSubstr("has an alignment of '32' (string)"));
}

TEST(Gguf, RefusesDamagedTensors) {
  const TemporaryFolder folder;
  const auto said = [&](const std::function<void(GgufBytes&)>& tensors, std::uint64_t count = 1,
                        std::size_t data = 1024) {
    GgufBytes file;
    file.head(3, count, 0);
    tensors(file);
    file.pad().raw(std::string(data, '\0'));
    const std::filesystem::path path = folder.write("bad.gguf", file.text);
    return refusal([&] { GgufFile{path}; });
  };
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {}, 0, 0); }), HasSubstr("'t' has 0 dimensions; wanted 1 to 4"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {1, 1, 1, 1, 1}, 0, 0); }), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(said([](GgufBytes& f) {
                f.tensor("t", {1ull << 40, 1ull << 40}, 0, 0);
              }),
              HasSubstr("too large for memory"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {~0ull}, 0, 0); }), HasSubstr("too large for memory"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {1ull << 62}, 0, 0); }),
              HasSubstr("more bytes than fit in memory"));
  EXPECT_THAT(said([](GgufBytes& f) {
                f.tensor("t", {0, 1ull << 62, 1ull << 62}, 0, 0);
              }),
              HasSubstr("too large for memory"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {48}, 8, 0); }),
              HasSubstr("has rows of 48 elements, which are not whole blocks of Q8_0 (32 elements)"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {4}, 0, 16); }),
              HasSubstr("has offset 16; wanted a multiple of 32"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {4}, 0, ~0ull - 31); }), HasSubstr("but only 1024 follow"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {512}, 0, 0); }),
              HasSubstr("has 2048 bytes, but only 1024 follow"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {16}, 0, 0).tensor("u", {8}, 0, 32); }, 2),
              HasSubstr("tensors 't' and 'u' overlap"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32); }, 2),
              HasSubstr("tensor 't' occurs twice"));
  EXPECT_THAT(said([](GgufBytes& f) { f.tensor("", {8}, 0, 0); }), HasSubstr("the name of tensor 0 is empty"));
}

TEST(Gguf, KeepsOtherTensorsReadableBesideAnUnknownFormat) {
  const TemporaryFolder folder;
  GgufBytes file;
  file.head(2, 3, 0).tensor("new", {256}, 1000, 0).tensor("q8", {256}, 15, 64).tensor("w", {8}, 0, 128);
  file.pad().raw(std::string(160, '\0'));
  const GgufFile gguf(folder.write("unknown.gguf", file.text));
  EXPECT_EQ(gguf.version(), 2u);
  EXPECT_EQ(gguf.tensor("new").format, nullptr);
  EXPECT_EQ(gguf.tensor("new").shape, Shape({256}));
  EXPECT_THAT(refusal([&] { gguf.bytes("new"); }), HasSubstr("tensor 'new' has type 1000, which is not supported"));
  EXPECT_THAT(refusal([&] { gguf.load("q8"); }), HasSubstr("has type 15 (Q8_K)"));
  EXPECT_EQ(gguf.load("w").numel(), 8);
  EXPECT_THROW(load_gguf(gguf.path()), FormatError);
}

TEST(Gguf, ReadsEmptyTensorsAndFilesWithoutAny) {
  const TemporaryFolder folder;
  const GgufFile none(folder.write("none.gguf", GgufBytes().head(3, 0, 0).text));
  EXPECT_TRUE(none.tensors().empty());
  GgufBytes file;
  file.head(3, 1, 0).tensor("t", {0, 5}, 0, 0);  // without the padding before its data
  const GgufFile empty(folder.write("empty.gguf", file.text));
  EXPECT_EQ(empty.load("t").shape(), Shape({5, 0}));
  EXPECT_TRUE(empty.bytes("t").empty());
}

/// Other programs also use I2_S's type number for blocks of 32 with a scale each.
TEST(Gguf, RefusesBlocksOfBitNetThatHaveScales) {
  const TemporaryFolder folder;
  const auto file = [&](std::size_t bytes) {
    GgufBytes file;
    file.head(3, 2, 0).tensor("t", {1024, 2}, 36, 0).tensor("u", {1024, 2}, 36, (bytes + 31) / 32 * 32);
    file.pad().raw(std::string(bytes, '\x55')).pad().raw(std::string(bytes, '\x55'));
    return folder.write("bitnet.gguf", file.text);
  };
  EXPECT_EQ(GgufFile(file(2048 / 4 + 32)).tensor("u").format->name, "I2_S");
  EXPECT_THAT(refusal([&] { GgufFile(file(2048 / 32 * 10)); }), HasSubstr("with a scale each"));
}

}  // namespace
}  // namespace etna::io
