#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <etna/data/dataset.h>
#include <etna/device/file_path.h>
#include <etna/tensor/tensor.h>

/// Pictures in files, and the image collections that everybody begins with. Pictures are u8 [C, H, W]: C is 1 (gray),
/// 2 (gray and alpha), 3 (RGB) or 4 (RGB and alpha). Targets are i64 numbers; a transform (transforms.h) or the step
/// itself makes floating numbers of the pictures. PNG is read by libpng, JPEG by libjpeg; a build without one of them
/// says so in the error.
namespace etna::data {

/// The channels wanted; `unchanged` keeps the file's. Palettes and fewer than eight bits become plain channels, sixteen
/// bits become eight. Gray of RGB is 0.299 R + 0.587 G + 0.114 B; alpha is dropped, not blended.
enum class ImageMode { unchanged, gray, rgb };

/// Reads a PNG or JPEG file; its first bytes tell which.
/// @throws FormatError for a file that is missing, damaged, cut short, of another format, or has more than 2^28 pixels
Tensor read_image(const FilePath& path, ImageMode mode = ImageMode::unchanged);
/// The same from memory. @param most_pixels up to 2^28 @throws FormatError with text that fits after "FILE: "
Tensor decode_image(std::span<const std::byte> bytes, ImageMode mode = ImageMode::unchanged,
                    std::uint64_t most_pixels = std::uint64_t{1} << 28);

/// A picture as it is to be looked at: JPEG files of cameras may say in their EXIF part that it lies on its side or
/// upside down, or is mirrored. @throws FormatError as read_image()
Tensor read_upright_image(const FilePath& path, ImageMode mode = ImageMode::unchanged);
/// The same from memory. @throws FormatError as decode_image()
Tensor decode_upright_image(std::span<const std::byte> bytes, ImageMode mode = ImageMode::unchanged,
                            std::uint64_t most_pixels = std::uint64_t{1} << 28);

/// Writes u8 [C, H, W] or [H, W], atomically. @throws DtypeError, ShapeError for another tensor; FormatError if the
/// file cannot be written
void write_png(const FilePath& path, const Tensor& image);

/// Reads an IDX file, the format of MNIST and its relatives, plain or compressed by gzip: an array of u8, i8, i16
/// (which becomes i32), i32, f32 or f64.
/// @throws FormatError for a file that is missing or damaged, naming the file and the fault
Tensor read_idx(const FilePath& path, Device device = {});
/// Writes u8, i8, i32, f32 and f64, uncompressed, atomically. @throws DtypeError for others; FormatError if the file
/// cannot be written; ShapeError for sizes beyond 32 bits
void write_idx(const FilePath& path, const Tensor& tensor);

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
