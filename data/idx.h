#pragma once

#include <etna/device/file_path.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

/// Reads an IDX file, the format of MNIST and its relatives, plain or compressed by gzip: an array of u8, i8, i16
/// (which becomes i32), i32, f32 or f64.
/// @throws FormatError for a file that is missing or damaged, naming the file and the fault
Tensor read_idx(const FilePath& path, Device device = {});
/// Writes u8, i8, i32, f32 and f64, uncompressed, atomically. @throws DtypeError for others; FormatError if the file
/// cannot be written; ShapeError for sizes beyond 32 bits
void write_idx(const FilePath& path, const Tensor& tensor);

}  // namespace etna::data
