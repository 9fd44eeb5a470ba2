#pragma once

/// What the system under the library offers. Sources ask here instead of asking which system it is.
namespace etna {

#if defined(__EMSCRIPTEN__)
/// Whether memory comes from the system by pages, which can be returned in parts.
inline constexpr bool kHasPages = false;
#else
inline constexpr bool kHasPages = true;
#endif

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
/// Whether threads can be started. Without them, work that would run beside the caller runs in it.
inline constexpr bool kHasThreads = false;
#else
inline constexpr bool kHasThreads = true;
#endif

}  // namespace etna
