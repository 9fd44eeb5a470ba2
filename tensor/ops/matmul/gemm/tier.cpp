#include <etna/tensor/ops/matmul/gemm/tier.h>

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
/// Asked only by name: of ETNA_GEMM, or of a table's choice.
constexpr Launcher kByName[] = {{Tier::coopmat2, launch_coopmat2}};
constexpr const char* kNames[] = {"plain", "coopmat", "coopmat2", "cubin"};

thread_local int forced = -1;

std::vector<Launcher> only(Tier tier) {
  std::vector<Launcher> list;
  for (const Launcher& l : kByName) {
    if (l.tier == tier) list.push_back(l);
  }
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

std::span<const Launcher> launchers_by_name() {
  if (std::optional<Tier> tier = asked_for(); tier && *tier != Tier::coopmat2) return {};
  return kByName;
}

std::optional<Tier> asked_for() {
  static const std::optional<Tier> from_environment = tier_in_environment();
  return forced >= 0 ? static_cast<Tier>(forced) : from_environment;
}

ForcedTier::ForcedTier(Tier tier) : before_(forced) { forced = static_cast<int>(tier); }
ForcedTier::~ForcedTier() { forced = before_; }

}  // namespace etna::product
