#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/tensor/internal/overrides.h>

namespace etna::gemm {
namespace {

constexpr Launcher kLaunchers[] = {{KernelVariant::cubin, launch_cubin},
                                   {KernelVariant::coopmat, launch_coopmat},
                                   {KernelVariant::plain, launch_plain}};

std::vector<Launcher> only(KernelVariant variant) {
  std::vector<Launcher> list;
  for (const Launcher& l : kLaunchers) {
    if (l.variant == variant || l.variant == KernelVariant::plain) list.push_back(l);
  }
  return list;
}

std::optional<KernelVariant> variant_in_environment() {
  const char* value = std::getenv("ETNA_GEMM");
  if (value == nullptr || *value == 0 || std::string(value) == "auto") return {};
  if (std::optional<KernelVariant> variant = variant_named(value)) return variant;
  throw Error(fmt::format("ETNA_GEMM is '{}'; it may be auto, plain, coopmat or cubin", value));
}

}  // namespace

const char* name(KernelVariant variant) {
  switch (variant) {
    case KernelVariant::plain:
      return "plain";
    case KernelVariant::coopmat:
      return "coopmat";
    case KernelVariant::cubin:
      return "cubin";
  }
  return "";
}

std::optional<KernelVariant> variant_named(std::string_view text) {
  for (KernelVariant variant : {KernelVariant::plain, KernelVariant::coopmat, KernelVariant::cubin}) {
    if (name(variant) == text) return variant;
  }
  return {};
}

std::span<const Launcher> launchers() {
  static const std::array<std::vector<Launcher>, 3> by_variant = {
      only(KernelVariant::plain), only(KernelVariant::coopmat), only(KernelVariant::cubin)};
  if (std::optional<KernelVariant> variant = requested_variant()) return by_variant[static_cast<std::size_t>(*variant)];
  return kLaunchers;
}

std::optional<KernelVariant> requested_variant() {
  static const std::optional<KernelVariant> from_environment = variant_in_environment();
  const std::optional<KernelVariant> given = overrides().gemm_variant;
  return given ? given : from_environment;
}

}  // namespace etna::gemm
