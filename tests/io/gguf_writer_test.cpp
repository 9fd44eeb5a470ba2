#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/etna.h>
#include <etna/tensor/io/gguf.h>
#include <io/gguf_bytes.h>

#include "io/refusal.h"
#include "tensor/file_bytes.h"

namespace etna::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> wave(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
  return values;
}

TEST(GgufWriter, WritesWhatTheReaderReads) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.gguf";
  const std::vector<float> values = wave(512);
  const auto bytes = std::as_bytes(std::span(values));
  {
    GgufWriter file(path);
    file.set("general.architecture", "llama");
    file.set("u8", std::uint8_t{1});
    file.set("i8", std::int8_t{-1});
    file.set("u16", std::uint16_t{2});
    file.set("i16", std::int16_t{-2});
    file.set("u32", std::uint32_t{3});
    file.set("i32", std::int32_t{-3});
    file.set("u64", std::uint64_t{4});
    file.set("i64", std::int64_t{-4});
    file.set("f32", 0.5f);
    file.set("f64", 0.25);
    file.set("bool", true);
    file.set("words", std::vector<std::string>{"a", "", "\xff"});
    file.set("floats", std::vector<float>{1, 2});
    file.set("bools", std::vector<bool>{true, false});
    file.set("empty", std::vector<std::int32_t>{});
    file.add("pieces", quant::format_named("F32"), {2, 256});
    file.add("none", quant::format_named("F16"), {0, 4});
    file.add("blocks", quant::format_named("Q4_K"), {2, 256});
    file.add("last", quant::format_named("F32"), {3});
    file.write("pieces", bytes.first(100));
    EXPECT_FALSE(std::filesystem::exists(path));
    file.write("pieces", bytes.subspan(100));
    file.write("none", std::span<const std::byte>());
    file.write("blocks", from_vector(values, {2, 256}));
    file.write("last", from_vector<float>({7, 8, 9}));
    file.finish();
  }
  const GgufFile gguf(path);
  EXPECT_EQ(gguf.version(), 3u);
  EXPECT_EQ(gguf.string("general.architecture"), "llama");
  EXPECT_EQ(gguf.integer("i64"), -4);
  EXPECT_EQ(gguf.find("u16")->type(), GgufType::u16);
  EXPECT_EQ(*gguf.find("i8"), GgufValue(std::int8_t{-1}));
  EXPECT_EQ(gguf.number("f64"), 0.25);
  EXPECT_THAT(gguf.strings("words"), ElementsAre("a", "", "\xff"));
  EXPECT_EQ(*gguf.find("bools"), GgufValue(std::vector<bool>{true, false}));
  EXPECT_EQ(gguf.find("empty")->size(), 0u);
  EXPECT_EQ(gguf.load("pieces").to_vector<float>(), values);
  EXPECT_EQ(gguf.load("none").shape(), Shape({0, 4}));
  EXPECT_EQ(gguf.load("last").to_vector<float>(), (std::vector<float>{7, 8, 9}));
  const std::vector<float> decoded = gguf.load("blocks").to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(decoded[i], values[i], 0.1) << i;
  EXPECT_EQ(gguf.tensor("last").begin % 32, 0u);
}

TEST(GgufWriter, WritesEveryFormatAndAnAlignment) {
  const TemporaryFolder folder;
  const std::vector<float> values = wave(1024);
  const Tensor tensor = from_vector(values, {4, 256});
  GgufWriter file(folder / "all.gguf", 64);
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (format.can_quantize() && format.gguf_type != quant::kNoGgufType) file.add(format.name, format, {4, 256});
  }
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (format.can_quantize() && format.gguf_type != quant::kNoGgufType) file.write(format.name, tensor);
  }
  file.finish();
  const GgufFile gguf(folder / "all.gguf");
  EXPECT_EQ(gguf.alignment(), 64u);
  EXPECT_EQ(gguf.tensors().size(), 20u);
  for (const GgufTensor& written : gguf.tensors()) {
    EXPECT_EQ(written.begin % 64, 0u);
    EXPECT_EQ(written.format->name, written.name);
    std::vector<std::byte> bytes(written.bytes);
    quant::quantize(*written.format, values.data(), bytes, 1024);
    const MappedBytes found = gguf.bytes(written);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), found.span().begin(), found.span().end())) << written.name;
  }
}

TEST(GgufWriter, SavesTensorsInTheirDTypes) {
  const TemporaryFolder folder;
  const Tensor x = arange(6, f32).reshape({2, 3});
  GgufOptions options;
  options.metadata.emplace_back("general.name", "test");
  save_gguf(folder / "t.gguf",
            {{"f32", x},
             {"view", x.transpose(0, 1)},
             {"f16", x.to(f16)},
             {"bf16", x.to(bf16)},
             {"i64", x.to(i64)},
             {"f64", x.to(f64)},
             {"i32", x.to(i32)},
             {"i8", x.to(i8)}},
            options);
  const std::map<std::string, Tensor> loaded = load_gguf(folder / "t.gguf");
  ASSERT_EQ(loaded.size(), 8u);
  for (const auto& [name, tensor] : loaded) {
    const Tensor wanted = name == "view" ? x.transpose(0, 1) : x;
    EXPECT_EQ(tensor.shape(), wanted.shape()) << name;
    EXPECT_EQ(tensor.to(f32).to_vector<float>(), wanted.contiguous().to_vector<float>()) << name;
    EXPECT_EQ(tensor.dtype(), name == "view" ? f32 : dtype_named(name)) << name;
  }
  EXPECT_THAT(refusal([&] {
                save_gguf(folder / "b.gguf", {{"b", x.to(boolean)}});
              }),
              HasSubstr("tensor 'b' has dtype bool, which GGUF cannot hold"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b.gguf"));
}

TEST(GgufWriter, LeavesWhatWasThereUntilItFinishes) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("model.gguf", "before");
  {
    GgufWriter file(path);
    file.add("w", quant::format_named("F32"), {4});
    file.write("w", from_vector<float>({1, 2, 3, 4}));
  }
  EXPECT_EQ(bytes_of(path), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THAT(refusal([&] { GgufWriter(folder / "no" / "model.gguf"); }), HasSubstr("cannot be written"));
}

TEST(GgufWriter, SaysWhenTheDiskIsFull) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  GgufWriter file("/dev/full");
  file.add("w", quant::format_named("F32"), {4});
  EXPECT_THAT(refusal([&] {
                file.write("w", from_vector<float>({1, 2, 3, 4}));
              }),
              HasSubstr("/dev/full: cannot be written: No space left on device"));
}

TEST(GgufWriter, RefusesWhatNobodyCouldRead) {
  const TemporaryFolder folder;
  const quant::BlockFormat& format = quant::format_named("Q4_0");
  GgufWriter file(folder / "model.gguf");
  EXPECT_THAT(refusal([&] { file.set("", true); }), HasSubstr("cannot be a key"));
  EXPECT_THAT(refusal([&] { file.set("general.alignment", std::uint32_t{64}); }),
              HasSubstr("to the writer's constructor"));
  file.set("k", true);
  EXPECT_THAT(refusal([&] { file.set("k", true); }), HasSubstr("metadata 'k' is set twice"));
  EXPECT_THAT(refusal([&] { file.add(std::string(64, 'n'), format, {32}); }), HasSubstr("a name of 64 bytes"));
  EXPECT_THAT(refusal([&] { file.add("w", format, {}); }), HasSubstr("wanted 1 to 4 dimensions"));
  EXPECT_THAT(refusal([&] { file.add("w", format, {1, 1, 1, 1, 32}); }), HasSubstr("wanted 1 to 4 dimensions"));
  EXPECT_THAT(refusal([&] { file.add("w", format, {32, 48}); }), HasSubstr("rows of 48 elements"));
  EXPECT_THAT(refusal([&] { file.add("w2", quant::format_named("INT4_64"), {64}); }), HasSubstr("no number in GGUF"));
  EXPECT_THAT(refusal([&] { GgufWriter(folder / "x.gguf", 48); }), HasSubstr("the alignment is 48"));
}

TEST(GgufWriter, RefusesCallsOutOfOrder) {
  const TemporaryFolder folder;
  const quant::BlockFormat& format = quant::format_named("F32");
  const Tensor four = from_vector<float>({1, 2, 3, 4});
  GgufWriter file(folder / "model.gguf");
  file.add("a", format, {4});
  file.add("b", format, {4});
  EXPECT_THAT(refusal([&] { file.add("b", format, {4}); }), HasSubstr("'b' is declared twice"));
  EXPECT_THAT(refusal([&] { file.write("b", four); }), HasSubstr("'b' cannot be written now: 'a' comes next"));
  file.set("still", true);
  EXPECT_THAT(refusal([&] { file.write("a", from_vector<float>({1})); }),
              HasSubstr("declared as [4], but has shape [1]"));
  EXPECT_THAT(refusal([&] { file.set("late", true); }), HasSubstr("comes after the first tensor was written"));
  EXPECT_THAT(refusal([&] { file.add("late", format, {4}); }), HasSubstr("declared after the first tensor"));
  const std::vector<std::byte> five(20);
  EXPECT_THAT(refusal([&] { file.write("a", five); }), HasSubstr("takes 16 bytes; got 20"));
  EXPECT_THAT(refusal([&] { file.write("a", from_vector<std::int32_t>({1, 2, 3, 4})); }), HasSubstr("cannot hold"));
  file.write("a", four);
  EXPECT_THAT(refusal([&] { file.finish(); }), HasSubstr("tensor 'b' has 0 of its 16 bytes"));
  file.write("b", four);
  EXPECT_THAT(refusal([&] { file.write("b", four); }), HasSubstr("all declared ones are complete"));
  file.finish();
  EXPECT_THAT(refusal([&] { file.finish(); }), HasSubstr("is already finished"));
}

TEST(GgufWriter, NamesTheTensorWithANaN) {
  const TemporaryFolder folder;
  GgufWriter file(folder / "model.gguf");
  file.add("w", quant::format_named("Q8_0"), {32});
  std::vector<float> values = wave(32);
  values[3] = std::nanf("");
  EXPECT_THAT(refusal([&] { file.write("w", from_vector(values, {32})); }),
              HasSubstr("tensor 'w' from row 0 on: quantize: element 3 is NaN, which Q8_0 cannot hold"));
}

}  // namespace
}  // namespace etna::io
