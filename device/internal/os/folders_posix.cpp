#include <etna/device/internal/os/folders.h>

#include <cstdlib>

namespace etna::os {
namespace {

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

const char* const kUserFolderVariable = "HOME";

/// As the XDG Base Directory Specification says.
std::filesystem::path user_folder(UserFolder which) {
  struct Place {
    const char* variable;
    const char* below_home;
  };
  constexpr Place kPlaces[] = {
      {"XDG_CACHE_HOME", ".cache"}, {"XDG_CONFIG_HOME", ".config"}, {"XDG_STATE_HOME", ".local/state"}};
  const Place& place = kPlaces[static_cast<int>(which)];
  if (std::filesystem::path named = variable(place.variable); !named.empty()) return named;
  const std::filesystem::path home = variable("HOME");
  return home.empty() ? home : home / place.below_home;
}

}  // namespace etna::os
