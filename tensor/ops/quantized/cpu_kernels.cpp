#include <etna/tensor/ops/quantized/internal/cpu_kernels.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/quant/internal/formats.h>
#include <etna/tensor/quant/internal/vector_portable.h>

// The portable kernels, and the selection of an instruction set.
namespace etna::quantized {
namespace portable {
namespace {

using namespace quant;

struct Vector {
  using Sum = float;
  static Sum zero() { return 0; }
  static float total(Sum sum) { return sum; }

  /// Scales and minimums of 16 elements each; minimums include kZero.
  template <typename F>
  static ETNA_INLINE void scales(const std::byte* b, float (&scales)[kSubs], float (&minimums)[kSubs]) {
    Portable::template scales_per_16<F>(b, scales, minimums);
    if constexpr (F::kZero == 0) return;
    for (int s = 0; s < kSubs; ++s) {
      const float zero = static_cast<float>(F::kZero) * scales[s];
      minimums[s] = F::kMinimums ? minimums[s] + zero : zero;
    }
  }
  template <typename F>
  static ETNA_INLINE void quants(const std::byte* b, std::uint8_t (&to)[kGroup]) {
    unrolled<8>([&](auto run)
                    ETNA_INLINE_LAMBDA { std::memcpy(to + 32 * run, quants_of<Portable, F, run()>(b).at, 32); });
  }

  template <typename F, int M>
  static ETNA_INLINE void group(const std::byte* b, const QuantizedGroup* x, Sum (&sums)[M]) {
    alignas(64) std::uint8_t quants[kGroup];
    alignas(64) float scales[kSubs], minimums[kSubs];
    Vector::scales<F>(b, scales, minimums);
    Vector::quants<F>(b, quants);
    for (int m = 0; m < M; ++m) {
      const std::int8_t* own = x[m].quants;
      for (int s = 0; s < kSubs; ++s) {
        int product = 0;
        for (int i = 0; i < 16; ++i) product += static_cast<int>(quants[16 * s + i]) * own[16 * s + i];
        sums[m] += scales[s] * x[m].scales[s] * static_cast<float>(product) - minimums[s] * x[m].sums[s];
      }
    }
  }
  template <typename F>
  static ETNA_INLINE void dequantize(const std::byte* b, float* out) {
    alignas(64) std::uint8_t quants[kGroup];
    alignas(64) float scales[kSubs], minimums[kSubs];
    Vector::scales<F>(b, scales, minimums);
    Vector::quants<F>(b, quants);
    for (int s = 0; s < kSubs; ++s) {
      const float scale = scales[s], minimum = minimums[s];
      for (int i = 0; i < 16; ++i) out[16 * s + i] = scale * static_cast<float>(quants[16 * s + i]) - minimum;
    }
  }
  static ETNA_INLINE void round_bf16(const float* x, std::uint16_t* y) { quant::round_bf16(x, y); }

  static constexpr int kFloats = 8;
  struct Floats {
    float at[kFloats];
  };
  static ETNA_INLINE Floats none() { return {}; }
  template <typename T>
  static ETNA_INLINE Floats load(const T* x) {
    Floats y;
    for (int i = 0; i < kFloats; ++i) y.at[i] = value(x[i]);
    return y;
  }
  static ETNA_INLINE void store(const Floats& x, float* to) { std::memcpy(to, x.at, sizeof x.at); }
  static ETNA_INLINE Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
    Floats y;
    for (int i = 0; i < kFloats; ++i) y.at[i] = a.at[i] * b.at[i] + c.at[i];
    return y;
  }
  static ETNA_INLINE float total(const Floats& a, const Floats& b, const Floats& c, const Floats& d) {
    float sum = 0;
    for (int i = 0; i < kFloats; ++i) sum += (a.at[i] + b.at[i]) + (c.at[i] + d.at[i]);
    return sum;
  }
};

#define ETNA_BF16_TARGET
#include <etna/tensor/ops/quantized/internal/cpu_kernels.inc>
#undef ETNA_BF16_TARGET

template <typename F>
void add_kernels(CpuKernels&) {}

CpuKernels kernels(std::string_view format) { return find(format, BlockFormats()); }

}  // namespace
}  // namespace portable

namespace {

using Kernels = CpuKernels (*)(std::string_view format);

struct Target {
  const char* name;
  const char* variable;  ///< the value of ETNA_QUANT_KERNELS
  bool (*there)();
  Kernels kernels;
};

bool always() { return true; }
#ifdef ETNA_KERNELS_AVX2
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif
#ifdef ETNA_KERNELS_AVX512
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

constexpr Target kTargets[] = {
#ifdef ETNA_KERNELS_AVX512
    {"AVX-512 VNNI", "avx512", has_avx512, avx512::kernels},
#endif
#ifdef ETNA_KERNELS_AVX2
    {"AVX2", "avx2", has_avx2, avx2::kernels},
#endif
    {"portable", "portable", always, portable::kernels}};

/// The first target that the processor supports, or the one named by ETNA_QUANT_KERNELS.
const Target* best() {
  const char* named = std::getenv("ETNA_QUANT_KERNELS");
  const bool any = named == nullptr || *named == 0 || std::string_view(named) == "auto";
  for (const Target& target : kTargets)
    if ((any || std::string_view(named) == target.variable) && target.there()) return &target;
  throw Error(fmt::format(
      "ETNA_QUANT_KERNELS is '{}'; wanted auto, portable, or avx2 or avx512 if this processor supports it", named));
}

/// Reads ETNA_QUANT_PROMPTS.
bool prompts_in_int8() {
  const char* named = std::getenv("ETNA_QUANT_PROMPTS");
  const std::string_view prompts = named == nullptr || *named == 0 ? "int8" : named;
  if (prompts == "int8" || prompts == "floats") return prompts == "int8";
  throw Error(fmt::format("ETNA_QUANT_PROMPTS is '{}'; wanted int8 or floats", named));
}

std::atomic<bool>& prompts_quantized() {
  static std::atomic<bool> on{prompts_in_int8()};
  return on;
}

std::atomic<const Target*>& chosen() {
  static std::atomic<const Target*> target{best()};
  return target;
}

}  // namespace

bool quantizes_prompts() { return prompts_quantized().load(std::memory_order_relaxed); }
void set_quantizes_prompts(std::optional<bool> on) { prompts_quantized() = on.has_value() ? *on : prompts_in_int8(); }

const CpuKernels& cpu_kernels(const quant::BlockFormat& format) {
  // For each target and format. Even what makes the list of a target has instructions that only its processors have.
  static const std::vector<std::vector<CpuKernels>> all = [] {
    std::vector<std::vector<CpuKernels>> made;
    for (const Target& target : kTargets) {
      made.emplace_back();
      if (!target.there()) continue;
      for (const quant::BlockFormat& f : quant::block_formats()) made.back().push_back(target.kernels(f.name));
    }
    return made;
  }();
  const auto target = static_cast<std::size_t>(chosen().load(std::memory_order_relaxed) - kTargets);
  return all[target][static_cast<std::size_t>(&format - quant::block_formats().data())];
}

const char* cpu_kernels_target() { return chosen().load()->name; }

bool use_cpu_kernels(const char* name) {
  if (name == nullptr) {
    chosen() = best();
    return true;
  }
  for (const Target& target : kTargets) {
    if (std::string_view(name) != target.name) continue;
    if (!target.there()) return false;
    chosen() = &target;
    return true;
  }
  return false;
}

}  // namespace etna::quantized
