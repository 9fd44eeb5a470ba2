#include <etna/tensor/product/tier.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace etna::product {
namespace {

constexpr Launcher kLaunchers[] = {
    {Tier::cubin, launch_cubin}, {Tier::coopmat, launch_coopmat}, {Tier::plain, launch_plain}};
constexpr const char* kNames[] = {"plain", "coopmat", "coopmat2", "cubin"};

thread_local int forced = -1;

std::vector<Launcher> only(Tier tier) {
  std::vector<Launcher> list;
  for (const Launcher& l : kLaunchers) {
    if (l.tier == tier || l.tier == Tier::plain) list.push_back(l);
  }
  return list;
}

std::optional<Tier> tier_in_environment() {
  const char* value = std::getenv("ETNA_GEMM");
  if (value == nullptr || *value == 0 || std::string(value) == "auto") return {};
  for (int i = 0; i < 4; ++i) {
    if (std::string(value) == kNames[i]) return static_cast<Tier>(i);
  }
  throw Error(fmt::format("ETNA_GEMM is '{}'; it may be auto, plain, coopmat, coopmat2 or cubin", value));
}

}  // namespace

std::span<const Launcher> launchers() {
  static const std::array<std::vector<Launcher>, 4> by_tier = {only(Tier::plain), only(Tier::coopmat),
                                                               only(Tier::coopmat2), only(Tier::cubin)};
  if (std::optional<Tier> tier = asked_for()) return by_tier[static_cast<std::size_t>(*tier)];
  return kLaunchers;
}

std::optional<Tier> asked_for() {
  static const std::optional<Tier> from_environment = tier_in_environment();
  return forced >= 0 ? static_cast<Tier>(forced) : from_environment;
}

ForcedTier::ForcedTier(Tier tier) : before_(forced) { forced = static_cast<int>(tier); }
ForcedTier::~ForcedTier() { forced = before_; }

}  // namespace etna::product
