#include <etna/tensor/io/npy.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/io/internal/zip.h>
#include <etna/tensor/ops.h>

#include "runner/libraries.h"
#include "tensor/file_bytes.h"

namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kNpyFiles = ETNA_SOURCE_DIR "/tests/torch/files/";

void expect_same(const Tensor& got, const Tensor& want, const std::string& what) {
  EXPECT_EQ(got.dtype(), want.dtype()) << what;
  ASSERT_EQ(got.shape(), want.shape()) << what;
  EXPECT_EQ(got.to_vector<double>(), want.to_vector<double>()) << what;
}

TEST(Npy, EveryDtypeAndShapeComesBack) {
  const TemporaryFolder folder;
  for (DType t : kAllDTypes) {
    if (t == bf16) continue;
    for (const Tensor& x : {arange(0, 15).reshape({3, 5}).to(t), scalar(1, {t}), empty({0, 4}, {t}),
                            arange(0, 12).reshape({3, 4}).t().slice(0, 1, 3).to(t), arange(3).to(t)}) {
      save_npy(folder / "x.npy", x);
      expect_same(load_npy(folder / "x.npy"), x, std::string(name(t)));
      EXPECT_EQ(bytes_of(folder / "x.npy").find('\n') % 64, 63u) << "elements begin at a multiple of 64";
    }
  }
  EXPECT_THAT([&] { save_npy(folder / "b.npy", ones({2}, bf16)); }, ThrowsMessage<DtypeError>(HasSubstr("no bf16")));
  EXPECT_FALSE(std::filesystem::exists(folder / "b.npy"));
}

TEST(Npy, ReadsWhatNumpyWrote) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  const auto all = load_npz(kNpyFiles + "arrays.npz");
  const Tensor numbers = arange(6).reshape({2, 3});
  for (const DType t : {f64, f32, f16, i64, i32, i8, u8})
    expect_same(all.at(std::string(name(t))), numbers.to(t), std::string(name(t)));
  expect_same(all.at("i16"), (numbers - 3).to(i32), "i16");
  expect_same(all.at("u16"), (numbers + 65000).to(i32), "u16");
  expect_same(all.at("u32"), numbers + from_vector({std::int64_t{4294967000}}), "u32");
  expect_same(all.at("bool"), gt(numbers, 2.0), "bool");
  expect_same(all.at("big"), numbers.to(f32), "big-endian");
  expect_same(all.at("big64"), numbers, "big-endian");
  expect_same(all.at("columns"), numbers.to(f32), "column-major");
  expect_same(all.at("columns3"), arange(24, {i32}).reshape({2, 3, 4}), "column-major");
  expect_same(all.at("number"), scalar(2.5), "0-d");
  expect_same(all.at("empty"), empty({0, 4}), "empty");
  EXPECT_TRUE(all.at("columns3").is_contiguous());
  const auto compressed = load_npz(kNpyFiles + "compressed.npz");
  expect_same(compressed.at("zeros"), zeros({3000}), "deflate");
  expect_same(compressed.at("seven"), full({1}, 7, i64), "deflate");
}

TEST(Npz, ComesBackStoredAndCompressedWithEqualBytes) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  const TemporaryFolder folder;
  const std::map<std::string, Tensor> saved{{"a", zeros({40, 30})}, {"b.c", arange(5)}, {"empty", empty({0})}};
  for (const bool compressed : {false, true}) {
    save_npz(folder / "x.npz", saved, compressed);
    const std::string bytes = bytes_of(folder / "x.npz");
    EXPECT_EQ(bytes.size() < 2000, compressed);
    const auto loaded = load_npz(folder / "x.npz");
    ASSERT_EQ(loaded.size(), saved.size());
    for (const auto& [name, x] : saved) expect_same(loaded.at(name), x, name);
    save_npz(folder / "x.npz", saved, compressed);
    EXPECT_EQ(bytes_of(folder / "x.npz"), bytes);
  }
  save_npz(folder / "none.npz", NamedTensors{});
  EXPECT_TRUE(load_npz(folder / "none.npz").empty());
  EXPECT_THAT(
      [&] {
        save_npz(folder / "twice.npz", NamedTensors{{"a", ones({1})}, {"a", ones({1})}});
      },
      ThrowsMessage<FormatError>(HasSubstr("given twice")));
  EXPECT_FALSE(std::filesystem::exists(folder / "twice.npz"));
}

TEST(Npy, RefusesWhatItCannotHoldByName) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  EXPECT_THAT([] { load_npy(kNpyFiles + "complex.npy"); }, ThrowsMessage<FormatError>(HasSubstr("type '<c8'")));
  EXPECT_THAT([] { load_npy(kNpyFiles + "u64.npy"); }, ThrowsMessage<FormatError>(HasSubstr("type '<u8'")));
  EXPECT_THAT([] { load_npy(kNpyFiles + "objects.npy"); }, ThrowsMessage<FormatError>(HasSubstr("unpickled")));
  EXPECT_THAT([] { load_npy(kNpyFiles + "records.npy"); }, ThrowsMessage<FormatError>(HasSubstr("records")));
  EXPECT_THAT([] { load_npy(kNpyFiles + "nothing.npy"); }, ThrowsMessage<FormatError>(HasSubstr("cannot be opened")));
  EXPECT_THAT([] { load_npz(kNpyFiles + "u64.npy"); }, ThrowsMessage<FormatError>(HasSubstr("is not an NPZ file")));
}

TEST(Npy, RefusesHostileShapes) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& shape, const std::string& elements) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n", length(2, '\0');
    length[0] = static_cast<char>(header.size());
    return load_npy(folder.write("x.npy", std::string("\x93NUMPY\x01\x00", 8) + length + header + elements));
  };
  EXPECT_EQ(load("(1,)", "abcd").shape(), Shape({1}));
  EXPECT_EQ(load("()", "abcd").shape(), Shape({}));
  for (const char* shape :
       {"(4294967296, 4294967296)", "(9223372036854775807, 2)", "(18446744073709551617,)",
        "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "(-1,)", "(2,)", "(,)", "(1", "1", "(0, 9223372036854775807, 9)"})
    EXPECT_THROW(load(shape, "abcd"), FormatError) << shape;
}

TEST(Npy, SurvivesDamage) {
  const std::string npy = [] {
    const TemporaryFolder folder;
    save_npy(folder / "x", arange(0, 15).reshape({3, 5}));
    return bytes_of(folder / "x");
  }();
  expect_safe_on_damage(npy, [](const auto& path) { load_npy(path); });
  expect_safe_on_damage(bytes_of(kNpyFiles + "arrays.npz"), [](const auto& path) { load_npz(path); });
  expect_safe_on_damage(bytes_of(kNpyFiles + "compressed.npz"), [](const auto& path) { load_npz(path); });
}

TEST(Npz, RefusesEntriesThatShareBytes) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  // Two directory entries of one stored file: each claims all of it.
  const TemporaryFolder folder;
  save_npz(folder / "x.npz", NamedTensors{{"a", zeros({4000})}, {"b", zeros({4000})}});
  std::string bytes = bytes_of(folder / "x.npz");
  // Cut the second file out; its directory entry now refers to what the first one's does.
  const std::size_t first = bytes.find("PK\3\4"), second = bytes.find("PK\3\4", first + 4);
  const std::size_t directory = bytes.find("PK\1\2"), entry = bytes.find("PK\1\2", directory + 4);
  std::string both = bytes.substr(0, second) + bytes.substr(directory);
  const auto put = [&](std::size_t at, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) both[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i));
  };
  put(entry - directory + second + 42, 0);
  put(both.find("PK\5\6") + 16, static_cast<std::uint32_t>(second));
  EXPECT_THAT([&] { io::ZipReader(folder.write("shared.npz", both), "an NPZ file"); },
              ThrowsMessage<FormatError>(HasSubstr("are left")));
}

}  // namespace
}  // namespace etna
