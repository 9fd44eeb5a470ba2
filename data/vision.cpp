#include <etna/data/vision.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/io/internal/mapped_file.h>
#include <etna/tensor/op.h>
#include <etna/tensor/ops.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMnistAdvice =
    "; MNIST's files are at yann.lecun.com/exdb/mnist and its mirrors, or torchvision.datasets.MNIST(folder, "
    "download=True) fetches them";
constexpr const char* kFashionAdvice =
    "; apt-get install dataset-fashion-mnist puts the files in /usr/share/datasets/fashion-mnist, and "
    "github.com/zalandoresearch/fashion-mnist has them";
constexpr const char* kCifarAdvice =
    "; the binary version is at www.cs.toronto.edu/~kriz/cifar.html (cifar-10-binary.tar.gz, cifar-100-binary.tar.gz)";

/// The first of the places where the file is.
FilePath find(const FilePath& folder, const std::vector<std::string>& below, const std::string& name,
              const char* advice) {
  std::error_code none;
  for (const std::string& inner : below) {
    for (const char* ending : {"", ".gz"}) {
      const FilePath file = folder / inner / (name + ending);
      if (fs::is_regular_file(file, none)) return file;
    }
  }
  throw FormatError(fmt::format("{}: there is no file {}{}", folder.string(), name, advice));
}

Example read_mnist(const FilePath& folder, const std::string& inner, bool train, const char* advice) {
  const std::string prefix = train ? "train-" : "t10k-";
  const FilePath images = find(folder, {"", inner}, prefix + "images-idx3-ubyte", advice);
  const FilePath labels = find(folder, {"", inner}, prefix + "labels-idx1-ubyte", advice);
  const Tensor data = read_idx(images), target = read_idx(labels);
  if (data.dtype() != u8 || data.dim() != 3)
    throw FormatError(fmt::format("{}: holds {} of shape {}, not pictures u8 [N, H, W]", images.string(),
                                  name(data.dtype()), str(data.shape())));
  if (target.dtype() != u8 || target.dim() != 1 || target.size(0) != data.size(0))
    throw FormatError(fmt::format("{}: holds {} of shape {}, not the {} labels u8 of {}", labels.string(),
                                  name(target.dtype()), str(target.shape()), data.size(0), images.string()));
  return {data.unsqueeze(1), target.to(i64)};
}

Example read_cifars(const FilePath& folder, const std::string& inner, const std::vector<std::string>& names, int labels,
                    int label) {
  std::vector<Tensor> data, target;
  for (const std::string& name : names) {
    const Example part = read_cifar(find(folder, {"", inner}, name, kCifarAdvice), labels, label);
    data.push_back(part.data);
    target.push_back(part.target);
  }
  return {cat(data), cat(target)};
}

TensorDataset dataset_of(const Example& all) { return TensorDataset(all.data, all.target); }

}  // namespace

Mnist::Mnist(const FilePath& folder, bool train)
    : TensorDataset(dataset_of(read_mnist(folder, "MNIST/raw", train, kMnistAdvice))) {}

FilePath FashionMnist::default_folder() { return "/usr/share/datasets/fashion-mnist"; }

FashionMnist::FashionMnist(const FilePath& folder, bool train)
    : TensorDataset(dataset_of(read_mnist(folder, "FashionMNIST/raw", train, kFashionAdvice))) {}

Cifar10::Cifar10(const FilePath& folder, bool train)
    : TensorDataset(dataset_of(
          read_cifars(folder, "cifar-10-batches-bin",
                      train ? std::vector<std::string>{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                       "data_batch_4.bin", "data_batch_5.bin"}
                            : std::vector<std::string>{"test_batch.bin"},
                      1, 0))) {}

Cifar100::Cifar100(const FilePath& folder, bool train, bool coarse)
    : TensorDataset(
          dataset_of(read_cifars(folder, "cifar-100-binary", {train ? "train.bin" : "test.bin"}, 2, coarse ? 0 : 1))) {}

Example read_cifar(const FilePath& path, int labels, int label) {
  if (labels < 1 || label < 0 || label >= labels)
    throw Error(fmt::format("read_cifar: label {} of {}; wanted a label in [0, labels)", label, labels));
  constexpr std::size_t kPicture = 3 * 32 * 32;
  const io::MappedFile file(path, "a file of CIFAR's binary version");
  const std::size_t record = kPicture + static_cast<std::size_t>(labels), count = file.size() / record;
  if (count == 0 || file.size() % record != 0) {
    throw FormatError(
        fmt::format("{}: is {} bytes long, not a whole number of pictures of {}; it is cut short or not "
                    "of CIFAR's binary version",
                    path.string(), file.size(), record));
  }
  std::vector<std::uint8_t> pictures(count * kPicture);
  std::vector<std::int64_t> targets(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = file.bytes() + i * record;
    targets[i] = std::to_integer<std::int64_t>(at[label]);
    std::memcpy(pictures.data() + i * kPicture, at + labels, kPicture);
  }
  const auto n = static_cast<std::int64_t>(count);
  return {from_bytes(pictures.data(), {n, 3, 32, 32}, u8), from_vector(targets)};
}

}  // namespace etna::data
