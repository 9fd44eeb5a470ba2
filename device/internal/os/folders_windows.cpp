#include <etna/device/internal/os/folders.h>

#include <cstdlib>

namespace etna::os {
namespace {

std::filesystem::path variable(const wchar_t* name) {
  const wchar_t* value = ::_wgetenv(name);
  return value != nullptr ? value : L"";
}

}  // namespace

const char* const kUserFolderVariable = "LOCALAPPDATA";

/// Settings may follow the user to other machines, the rest stays.
std::filesystem::path user_folder(UserFolder which) {
  constexpr const wchar_t* kNamed[] = {L"XDG_CACHE_HOME", L"XDG_CONFIG_HOME", L"XDG_STATE_HOME"};
  if (std::filesystem::path named = variable(kNamed[static_cast<int>(which)]); !named.empty()) return named;
  return variable(which == UserFolder::config ? L"APPDATA" : L"LOCALAPPDATA");
}

}  // namespace etna::os
