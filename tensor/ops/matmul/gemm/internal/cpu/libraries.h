#pragma once

#include <mutex>
#include <string>

#include <etna/tensor/ops/matmul/gemm/internal/cpu/blas.h>

/// The gemm libraries, each called on one thread. m, n and k are greater than 0.
namespace etna::cpu {

template <typename T, typename S = T>
using OneThread = void (*)(const Gemm& g, T alpha, const S* a, const S* b, T beta, T* c);

/// A library's gemm functions; null if it lacks one, or is not available.
struct Library {
  OneThread<float> f32 = nullptr;
  OneThread<double> f64 = nullptr;
  OneThread<float, Bf16> bf16 = nullptr;
  std::string name = {};  ///< with version and instruction set
};

/// bf16 by an f32 gemm: converts the operands in chunks of k.
void multiply_widened(OneThread<float> multiply, const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta,
                      float* c);

/// Selects its code by CPUID. Empty if Etna was built without it.
const Library& onednn();
/// Loaded on first use. Empty if it is not installed, or if the process had already loaded it: then other code controls
/// its threads and its code selection.
const Library& openblas();
/// A function of OpenBLAS, which contains LAPACK; null if there is none. Also finds an OpenBLAS that the process had
/// already loaded.
void* openblas_function(const char* name);
/// Hold this lock while such a function runs. Empty if Etna loaded OpenBLAS, with one thread. Otherwise callers wait
/// here, since they would spin on OpenBLAS's own threads.
std::unique_lock<std::mutex> openblas_turn();
/// Etna's own, f32 only; selects its code by CPUID if there is a choice.
const Library& packed();
/// True if packed() has vectors of more than one element. Without them, Eigen or the compiler is faster.
bool packed_has_vectors();
/// Always available, for the instruction set that Etna was compiled for.
const Library& eigen();

}  // namespace etna::cpu
