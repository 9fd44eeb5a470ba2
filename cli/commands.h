#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <etna/device/device.h>

/// The subcommands of `etna`, and what those about devices share.
namespace etna::cli {

/// A subcommand, and what runs it: prints to standard output and returns the exit code.
struct Command {
  const CLI::App* app = nullptr;
  std::function<int()> run;
};

/// One function for each row of the table: adds the subcommand with its options, which `run` keeps.
#define ETNA_COMMAND(name) Command add_##name(CLI::App& app);
#include "commands.def"
#undef ETNA_COMMAND

/// The exit code for suspicious weights.
inline constexpr int kSuspicious = 8;

/// Prints what MoltenVK, the Vulkan of macOS, lacks of what the library and its kernels ask for. @returns 3 if the
/// library could not run there.
int doctor_moltenvk();
/// The same for --kernels: which kernels run on the devices. @param names of devices; empty: all that are usable
int doctor_kernels(const std::vector<std::string>& names, const std::string& json_file, bool force);

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
