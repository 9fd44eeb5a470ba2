#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/device.h>

/// The subcommands of `etna`. Each prints to standard output and gives the exit code.
namespace etna::cli {

/// One line an adapter: what it is, whether it can be used, which one `auto` takes.
int devices();

/// Everything about each adapter, and whether it multiplies matrices as it should. @returns 3 where one does not.
int doctor();

struct BenchOptions {
  std::vector<std::string> devices;  ///< as select_device() takes them; none: all but software rasterizers
  std::string json;                  ///< a file to write; empty: none
  bool quick = false;
};

/// How fast devices dispatch, copy and multiply, as tables and JSON. @returns 3 where something failed on one.
/// @throws DeviceError, FormatError where the file cannot be written
int bench(const BenchOptions& options);

/// Multiplies matrices on the device for about a second and compares them with sums in f64 on the host.
/// @returns false where they differ or the device fails; `line` says how it went.
bool check_matmul(Device device, std::string& line);

/// A line each for f32, bf16 and f64 on the CPU: which library multiplies, for which instructions, and what it reaches
/// in a tenth of a second with 1024 × 1024 matrices. @throws DeviceError where ETNA_BLAS names none
std::vector<std::string> product_kernels();

/// "139.8 GiB"
std::string readable_bytes(std::uint64_t bytes);

/// Why `auto`, which takes `chosen`, would or would not take this adapter.
std::string verdict(const AdapterInfo& adapter, Device chosen);

/// What devices() and doctor() end with: what `auto` takes, what is taken here without --device, and what to do about a
/// missing GPU.
void print_choice();

}  // namespace etna::cli
