#include <etna/tensor/ops/quantized/internal/row_kernels.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/tensor/ops/quantized/internal/row_kernels_targets.h>

namespace etna::quantized {
namespace {

using Kernels = RowKernels (*)(std::string_view format);

struct Target {
  const char* name;
  const char* variable;  ///< as ETNA_QUANT_KERNELS spells it
  bool (*there)();
  Kernels kernels;
};

bool always() { return true; }
#ifdef ETNA_ROWS_BY_AVX2
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif
#ifdef ETNA_ROWS_BY_AVX512
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

constexpr Target kTargets[] = {
#ifdef ETNA_ROWS_BY_AVX512
    {"AVX-512 VNNI", "avx512", has_avx512, avx512::kernels},
#endif
#ifdef ETNA_ROWS_BY_AVX2
    {"AVX2", "avx2", has_avx2, avx2::kernels},
#endif
    {"portable", "portable", always, portable::kernels}};

/// The first that the processor has, or the one that ETNA_QUANT_KERNELS names.
const Target* best() {
  const char* named = std::getenv("ETNA_QUANT_KERNELS");
  const bool any = named == nullptr || *named == 0 || std::string_view(named) == "auto";
  for (const Target& target : kTargets)
    if ((any || std::string_view(named) == target.variable) && target.there()) return &target;
  throw Error(fmt::format(
      "ETNA_QUANT_KERNELS is '{}'; it may be auto, portable, or what this processor has of avx2 and avx512", named));
}

/// What ETNA_QUANT_PROMPTS says.
bool prompts_in_codes() {
  const char* named = std::getenv("ETNA_QUANT_PROMPTS");
  const std::string_view prompts = named == nullptr || *named == 0 ? "codes" : named;
  if (prompts == "codes" || prompts == "floats") return prompts == "codes";
  throw Error(fmt::format("ETNA_QUANT_PROMPTS is '{}'; it may be codes or floats", named));
}

std::atomic<bool>& many_rows_in_codes() {
  static std::atomic<bool> on{prompts_in_codes()};
  return on;
}

std::atomic<const Target*>& chosen() {
  static std::atomic<const Target*> target{best()};
  return target;
}

}  // namespace

bool codes_many_rows() { return many_rows_in_codes().load(std::memory_order_relaxed); }
void set_codes_many_rows(std::optional<bool> on) { many_rows_in_codes() = on.has_value() ? *on : prompts_in_codes(); }

const RowKernels& row_kernels(const quant::BlockFormat& format) {
  // For each target and format.
  static const std::vector<std::vector<RowKernels>> all = [] {
    std::vector<std::vector<RowKernels>> made;
    for (const Target& target : kTargets) {
      made.emplace_back();
      for (const quant::BlockFormat& f : quant::block_formats()) made.back().push_back(target.kernels(f.name));
    }
    return made;
  }();
  const auto target = static_cast<std::size_t>(chosen().load(std::memory_order_relaxed) - kTargets);
  return all[target][static_cast<std::size_t>(&format - quant::block_formats().data())];
}

const char* row_kernels_target() { return chosen().load()->name; }

bool use_row_kernels(const char* name) {
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
