#pragma once

namespace etna {

/// What the system says of a file or a folder that is not there, and of a folder that is opened as a file. Windows has
/// several sentences, which no test asks for.
#ifdef _WIN32
inline constexpr const char* kNoSuchFile = "";
inline constexpr const char* kIsAFolder = "";
#else
inline constexpr const char* kNoSuchFile = "No such file or directory";
inline constexpr const char* kIsAFolder = "Is a directory";
#endif

}  // namespace etna
