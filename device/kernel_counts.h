#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/device.h>

/// What ran: kernels by variant, fallbacks and references, counted exactly. Receipts (train/receipt.h) are made of it.
namespace etna {

/// One kernel in one variant, and how often it ran.
struct KernelCount {
  Device device;
  std::string kernel;  ///< of a GPU: its shader or function of a cubin; else the op or the gemm
  std::string op;      ///< whose launch it was: "matmul", "fused(add, mul)"
  std::string
      path;  ///< "SPIR-V", "SPIR-V, cooperative matrix", "cubin sm_90", "AVX3_DL", "oneDNN 2.6.3 (AVX2)", "copy"
  std::string variant;         ///< a shader's specialization constants: "64,64,16"; may be empty
  std::uint64_t eager = 0;     ///< launches
  std::uint64_t replayed = 0;  ///< runs within replays of captured steps
  /// Launches that the program asked for: more than eager + replayed where a captured step joined several in one.
  std::uint64_t launches = 0;

  std::uint64_t runs() const { return eager + replayed; }
};

/// How an op ran that has no kernel of its own for the call.
enum class Detour : std::uint8_t {
  fallback,   ///< a tensor of another device was computed on the CPU; strict mode forbids it
  reference,  ///< composed of other ops' kernels, since the device has none for the call; strict mode forbids it
  composed,   ///< composed of other ops' kernels by design: the CPU has no kernel for the op
};
/// "fallback"
const char* name(Detour detour);

struct DetourCount {
  Detour detour = Detour::fallback;
  Device device;
  std::string op;
  std::uint64_t eager = 0, replayed = 0;

  std::uint64_t runs() const { return eager + replayed; }
};

struct KernelCounts {
  std::vector<KernelCount> kernels;  ///< by device, kernel, op, path and variant
  std::vector<DetourCount> detours;  ///< by kind, device and op
  std::uint64_t replays = 0;         ///< runs of captured steps

  /// Runs on the device.
  std::uint64_t runs(Device device) const;
  std::uint64_t runs(Detour detour) const;
};

/// What ran between two takes. Rows that did not run are left out.
KernelCounts difference(const KernelCounts& after, const KernelCounts& before);

/// While one lives, the whole process counts. Otherwise a launch costs one load more. Several may live at a time.
///     CountKernels counting;
///     model(x);
///     for (const KernelCount& k : counting.counts().kernels) ...
/// A kernel that another kernel calls on the CPU is counted, too; what a kernel computes on several threads is one run.
class CountKernels {
 public:
  CountKernels();
  ~CountKernels();
  CountKernels(const CountKernels&) = delete;
  CountKernels& operator=(const CountKernels&) = delete;

  /// Since this object was made, in all threads. First queues the calls of ops that are held back (docs/fusion.md).
  KernelCounts counts() const;

 private:
  KernelCounts before_;
};

}  // namespace etna
