#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/device.h>

/// The subcommands of `etna`. Each prints to standard output and returns the exit code.
namespace etna::cli {

/// Prints one line per adapter: what it is, whether it is usable, and which one `auto` takes.
int devices();

/// Prints everything about each adapter and checks its matrix products. @returns 3 if a check fails.
int doctor();

/// Prints what MoltenVK, the Vulkan of macOS, lacks of what the library and its kernels ask for. @returns 3 if the
/// library could not run there.
int doctor_moltenvk();

struct BenchOptions {
  std::vector<std::string> devices;  ///< in the form select_device() takes; none: all except software rasterizers
  std::string json;                  ///< a file to write; empty: none
  bool quick = false, force = false;
};

/// Measures how fast devices dispatch, copy and multiply; prints tables and JSON. @returns 3 if something failed on a
/// device.
/// @throws DeviceError, FormatError if the file cannot be written
int bench(const BenchOptions& options);

/// Multiplies matrices on the device for about a second and compares the results with f64 sums on the host.
/// @returns false if they differ or the device fails; `line` describes the outcome.
bool check_matmul(Device device, std::string& line);

/// One line each for f32, bf16 and f64 on the CPU: the gemm library, its instruction set, and its speed on 1024 × 1024
/// matrices in a tenth of a second. @throws DeviceError if ETNA_BLAS has an unknown value
std::vector<std::string> product_kernels();

/// Why `auto`, which takes `chosen`, would or would not take this adapter.
std::string verdict(const AdapterInfo& adapter, Device chosen);

/// The end of the output of devices() and doctor(): the device that `auto` takes, the device used without --device, and
/// what to do about a missing GPU.
void print_choice();

}  // namespace etna::cli
