#pragma once

#include <string>

#include <etna/device/cpu/gemm/blas.h>

/// The libraries that multiply, each on the calling thread alone. m, n and k are above 0.
namespace etna::cpu {

template <typename T, typename S = T>
using OneThread = void (*)(const Gemm& g, T alpha, const S* a, const S* b, T beta, T* c);

/// A library's products; null where it has none, or is not there.
struct Library {
  OneThread<float> f32 = nullptr;
  OneThread<double> f64 = nullptr;
  OneThread<float, Bf16> bf16 = nullptr;
  std::string name = {};  ///< with version and instruction set
};

/// bf16 by f32: operands are widened, a piece of k at a time.
void multiply_widened(OneThread<float> multiply, const Gemm& g, float alpha, const Bf16* a, const Bf16* b, float beta,
                      float* c);

/// Chooses its code by CPUID. Nothing where Etna was built without it.
const Library& onednn();
/// Loaded when first asked for. Nothing where it is not installed, or where the process had loaded it before: its
/// threads and its choice of code are then somebody else's.
const Library& openblas();
/// Always there, for the instruction set Etna was compiled for.
const Library& eigen();

}  // namespace etna::cpu
