#include <etna/data/vision.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/data_loader.h>
#include <etna/data/transforms.h>
#include <etna/tensor/ops.h>

#include "runner/libraries.h"
#include "tensor/file_bytes.h"

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Idx, EveryTypeComesBack) {
  const TemporaryFolder folder;
  for (const DType t : {u8, i8, i32, f32, f64}) {
    for (const Tensor& x :
         {arange(6).to(t).reshape({3, 2}), arange(6).to(t).reshape({3, 2}).t(), empty({0, 4}, {t}), full({}, 3, t)}) {
      write_idx(folder / "x", x);
      const Tensor y = read_idx(folder / "x");
      EXPECT_EQ(y.dtype(), t);
      EXPECT_EQ(y.shape(), x.shape());
      EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
    }
  }
  const Tensor shorts = read_idx(folder.write("s", std::string("\0\0\x0b\1\0\0\0\2\xff\xfe\1\0", 12)));
  EXPECT_EQ(shorts.dtype(), i32);
  EXPECT_EQ(shorts.to_vector<int>(), std::vector<int>({-2, 256}));
  EXPECT_THROW(write_idx(folder / "x", ones({2}, f16)), DtypeError);
}

TEST(Idx, FaultsAreNamed) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& bytes, const char* text) {
    EXPECT_THAT([&] { read_idx(folder.write("x", bytes)); }, ThrowsMessage<FormatError>(HasSubstr(text)));
  };
  expect("", "is not an IDX file");
  expect(std::string("\0\0\7\1", 4), "unknown element type 0x07");
  expect(std::string("\0\0\x08\x09", 4), "9 dimensions");
  expect(std::string("\0\0\x08\2\0\0\0\1", 8), "cut short in its header");
  expect(std::string("\0\0\x08\1\0\0\0\2a", 9), "has 1 bytes of elements, but shape [2] takes 2");
  expect(std::string("\0\0\x08\1\0\0\0\1ab", 10), "more bytes");
  expect(std::string("\0\0\x0e\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16), "no memory holds");
  expect("\x1f\x8b not gzip", kHasZlib ? "compressed data are damaged" : "this build of Etna has no zlib");
  EXPECT_THAT([&] { read_idx(folder / "none"); }, ThrowsMessage<FormatError>(HasSubstr("cannot be opened")));
}

/// gzip of write_idx(arange(6).to(u8).reshape({2, 3})).
const std::string kCompressed = {'\x1f', '\x8b', '\x08', '\x00', '\x00', '\x00', '\x00', '\x00', '\x02',
                                 '\x03', '\x63', '\x60', '\xe0', '\x60', '\x62', '\x60', '\x60', '\x00',
                                 '\x61', '\x66', '\x06', '\x46', '\x26', '\x66', '\x16', '\x56', '\x00',
                                 '\x26', '\x2c', '\x23', '\x54', '\x12', '\x00', '\x00', '\x00'};

TEST(Idx, GzipIsDecompressed) {
  if (!kHasZlib) GTEST_SKIP() << "this build has no zlib";
  const TemporaryFolder folder;
  const Tensor x = read_idx(folder.write("x.gz", kCompressed));
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>({0, 1, 2, 3, 4, 5}));
}

TEST(Idx, SurvivesDamage) {
  const TemporaryFolder folder;
  write_idx(folder / "x", arange(12).to(i32).reshape({3, 4}));
  expect_safe_on_damage(bytes_of(folder / "x"), [](const auto& path) { read_idx(path); });
  expect_safe_on_damage(kCompressed, [](const auto& path) { read_idx(path); });
}

/// Four pictures whose pixels are their number, in MNIST's files.
void write_mnist(const std::filesystem::path& folder, const std::string& prefix) {
  std::filesystem::create_directories(folder);
  write_idx(folder / (prefix + "images-idx3-ubyte"), arange(4).to(u8).reshape({4, 1, 1}).expand({4, 28, 28}));
  write_idx(folder / (prefix + "labels-idx1-ubyte"), arange(4).to(u8));
}

TEST(Vision, MnistIsFoundInEitherLayout) {
  const TemporaryFolder folder;
  write_mnist(folder.path(), "train-");
  write_mnist(folder / "MNIST/raw", "t10k-");
  for (const bool train : {true, false}) {
    const Mnist mnist(folder.path(), train);
    EXPECT_EQ(mnist.size(), 4);
    EXPECT_EQ(mnist.get(2).data.shape(), Shape({1, 28, 28}));
    EXPECT_EQ(mnist.get(2).data.to_vector<int>()[5], 2);
    EXPECT_EQ(mnist.get(3).target.item<std::int64_t>(), 3);
    EXPECT_EQ(mnist.get(3).target.dtype(), i64);
  }
  EXPECT_THAT([&] { Mnist((folder / "nowhere")); },
              ThrowsMessage<FormatError>(HasSubstr("torchvision.datasets.MNIST")));
  EXPECT_THAT([&] { FashionMnist((folder / "nowhere")); },
              ThrowsMessage<FormatError>(HasSubstr("dataset-fashion-mnist")));
  write_idx(folder / "train-labels-idx1-ubyte", arange(3).to(u8));
  EXPECT_THAT([&] { Mnist(folder.path()); }, ThrowsMessage<FormatError>(HasSubstr("not the 4 labels")));
}

TEST(Vision, CifarIsReadRecordByRecord) {
  const TemporaryFolder folder;
  const auto record = [](std::string labels, char pixel) { return labels + std::string(3072, pixel); };
  for (int i = 1; i <= 5; ++i)
    folder.write("data_batch_" + std::to_string(i) + ".bin", record({static_cast<char>(i)}, static_cast<char>(10 * i)));
  folder.write("test_batch.bin", record("\7", '\1') + record("\10", '\2'));
  folder.write("train.bin", record("\3\x50", '\4'));
  const Cifar10 train(folder.path()), test(folder.path(), false);
  EXPECT_EQ(train.size(), 5);
  EXPECT_EQ(train.get(2).data.shape(), Shape({3, 32, 32}));
  EXPECT_EQ(train.get(2).data.to_vector<int>()[3071], 30);
  EXPECT_EQ(test.get(1).target.item<int>(), 8);
  EXPECT_EQ(Cifar100(folder.path()).get(0).target.item<int>(), 0x50);
  EXPECT_EQ(Cifar100(folder.path(), true, true).get(0).target.item<int>(), 3);
  folder.write("test_batch.bin", "short");
  EXPECT_THAT([&] { Cifar10(folder.path(), false); }, ThrowsMessage<FormatError>(HasSubstr("not a whole number")));
  EXPECT_THAT([&] { Cifar100(folder.path(), false); }, ThrowsMessage<FormatError>(HasSubstr("cs.toronto.edu")));
}

TEST(Vision, FashionMnistIsWhatItsAuthorsSay) {
  if (!std::filesystem::exists(FashionMnist::default_folder()))
    GTEST_SKIP() << "Fashion-MNIST is not here: apt-get install dataset-fashion-mnist";
  const FashionMnist train, test(FashionMnist::default_folder(), false);
  EXPECT_EQ(train.size(), 60000);
  EXPECT_EQ(test.size(), 10000);
  DataLoader loader(test, {.batch_size = 1000, .num_workers = 2});
  std::vector<int> classes(10);
  double sum = 0;
  for (auto [x, y] : loader) {
    sum += x.to(f32).mean().item<double>();
    for (const int label : y.to_vector<int>()) ++classes.at(static_cast<std::size_t>(label));
  }
  EXPECT_EQ(classes, std::vector<int>(10, 1000));
  EXPECT_NEAR(sum / 10 / 255, 0.2868, 0.0005);
}

}  // namespace
}  // namespace etna::data
