#pragma once

// What tests skip in a build without the library that it takes (docs/platforms.md). Targets that ask are given the
// definitions.
namespace etna {

#ifdef ETNA_HAS_LIBZIP
inline constexpr bool kHasZip = true;
#else
inline constexpr bool kHasZip = false;
#endif

#ifdef ETNA_HAS_ZLIB
inline constexpr bool kHasZlib = true;
#else
inline constexpr bool kHasZlib = false;
#endif

#ifdef ETNA_HAS_PNG
inline constexpr bool kHasPng = true;
#else
inline constexpr bool kHasPng = false;
#endif

#ifdef ETNA_HAS_JPEG
inline constexpr bool kHasJpeg = true;
#else
inline constexpr bool kHasJpeg = false;
#endif

#ifdef ETNA_HAS_PCRE2
inline constexpr bool kHasPcre2 = true;
#else
inline constexpr bool kHasPcre2 = false;
#endif

#ifdef ETNA_HAS_UTF8PROC
inline constexpr bool kHasUtf8proc = true;
#else
inline constexpr bool kHasUtf8proc = false;
#endif

#ifdef ETNA_HAS_VULKAN
inline constexpr bool kHasVulkan = true;
#else
inline constexpr bool kHasVulkan = false;
#endif

}  // namespace etna
