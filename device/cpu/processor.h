#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What the host is, for people to read.
namespace etna::cpu {

/// "Intel(R) Xeon(R) Platinum 8481C"; "CPU" where the system does not tell.
std::string model_name();
/// Of the whole machine.
std::uint64_t memory_bytes();
/// Threads this process may run at once.
unsigned threads();
/// Vector extensions that matter to kernels, of avx2, fma, avx512f, avx512_bf16, amx_bf16, asimd, bf16 ...
std::vector<std::string> features();

}  // namespace etna::cpu
