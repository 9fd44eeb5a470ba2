#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include <etna/device/file_path.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/tensor.h>

/// NumPy's array files: .npy (versions 1 to 3), and .npz, a ZIP archive of them (needs libzip).
namespace etna {

/// Reads row-major and column-major arrays of either byte order. i16 and u16 become i32, and u32 becomes i64, because
/// Etna lacks these dtypes.
/// @throws FormatError naming the file and the fault, for an unreadable or damaged file, and for other dtypes (u64,
/// complex, strings, objects, which would need pickle)
Tensor load_npy(const FilePath& path, Device device = {});
/// Writes row-major, version 1.0, atomically. The tensor may be a view, on any device.
/// @throws DtypeError for bf16, which NumPy lacks; FormatError if the file cannot be written
void save_npy(const FilePath& path, const Tensor& tensor);

/// Reads all arrays of the archive, by name without ".npy". @throws FormatError as load_npy()
std::map<std::string, Tensor> load_npz(const FilePath& path, Device device = {});
/// Writes "NAME.npy" for each tensor, atomically; equal tensors give equal bytes. @param compressed as
/// np.savez_compressed @throws DtypeError, FormatError as save_npy(), and for a duplicate or empty name
void save_npz(const FilePath& path, const NamedTensors& tensors, bool compressed = false);
void save_npz(const FilePath& path, const std::map<std::string, Tensor>& tensors, bool compressed = false);

namespace npy {
/// The array in the bytes of an .npy file. @throws FormatError with text that fits after "FILE: "
Tensor parse(std::span<const std::byte> bytes, Device device);
}  // namespace npy

}  // namespace etna
