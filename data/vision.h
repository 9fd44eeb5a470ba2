#pragma once

#include <etna/data/dataset.h>
#include <etna/device/file_path.h>

/// The image collections that everybody begins with. Pictures are u8 [C, H, W], targets i64 numbers; a transform
/// (transforms.h) or the step itself makes floating numbers of them.
namespace etna::data {

/// Handwritten digits (LeCun et al. 1998): 60,000 and 10,000 pictures u8 [1, 28, 28], ten classes. Reads
/// train-images-idx3-ubyte, train-labels-idx1-ubyte and their t10k relatives, with or without .gz, in the folder or in
/// MNIST/raw below it.
class Mnist : public TensorDataset {
 public:
  /// @throws FormatError naming the file, and for a missing one how to get the data
  explicit Mnist(const FilePath& folder, bool train = true);
};

/// Articles of clothing (Xiao et al. 2017): files and sizes are MNIST's; below the folder in FashionMNIST/raw.
class FashionMnist : public TensorDataset {
 public:
  /// Where Debian's package dataset-fashion-mnist puts the files.
  static FilePath default_folder();
  explicit FashionMnist(const FilePath& folder = default_folder(), bool train = true);
};

/// Small photographs (Krizhevsky 2009): 50,000 and 10,000 pictures u8 [3, 32, 32], ten classes. Reads the binary
/// version, data_batch_1.bin ... test_batch.bin, in the folder or in cifar-10-batches-bin below it.
class Cifar10 : public TensorDataset {
 public:
  explicit Cifar10(const FilePath& folder, bool train = true);
};

/// The same with a hundred classes, of twenty groups: train.bin and test.bin, or in cifar-100-binary below.
class Cifar100 : public TensorDataset {
 public:
  /// @param coarse targets are the groups
  explicit Cifar100(const FilePath& folder, bool train = true, bool coarse = false);
};

/// The pictures and targets of one file in CIFAR's binary format. @param labels bytes before each picture, of which
/// `label` is the target
/// @throws FormatError for a file that is missing, or not a whole number of pictures long
Example read_cifar(const FilePath& file, int labels = 1, int label = 0);

}  // namespace etna::data
