#pragma once

#include <filesystem>

namespace etna::os {

enum class UserFolder {
  cache,   ///< what can be made again
  config,  ///< what the user sets
  state,   ///< what programs remember
};

/// Where programs keep files of this user's, each in a folder of its own; empty where the system does not say.
/// $XDG_CACHE_HOME, $XDG_CONFIG_HOME and $XDG_STATE_HOME hold everywhere.
std::filesystem::path user_folder(UserFolder which);
/// The variable in which the system says where `cache` and `state` are: "HOME", on Windows "LOCALAPPDATA".
extern const char* const kUserFolderVariable;

}  // namespace etna::os
