#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The host's processor and memory, for reports.
namespace etna::cpu {

/// "Intel(R) Xeon(R) Platinum 8481C"; "CPU" if the system does not report it.
std::string model_name();
/// Memory of the whole machine.
std::uint64_t memory_bytes();
/// The memory a program can still get without swapping, within the limit of this process's control group (Linux);
/// elsewhere memory_bytes().
std::uint64_t available_bytes();
/// Threads that this process may run concurrently.
unsigned threads();
/// The vector extensions that matter to kernels, a subset of avx2, fma, avx512f, avx512_bf16, amx_bf16, asimd, bf16 ...
std::vector<std::string> features();

}  // namespace etna::cpu
