#pragma once

// What tests skip in a build without the library that it takes (docs/platforms.md).
namespace etna {

#ifdef ETNA_HAS_LIBZIP
inline constexpr bool kHasZip = true;
#else
inline constexpr bool kHasZip = false;
#endif

#ifdef ETNA_HAS_PCRE2
inline constexpr bool kHasRegularExpressions = true;
#else
inline constexpr bool kHasRegularExpressions = false;
#endif

#ifdef ETNA_HAS_UTF8PROC
inline constexpr bool kHasUnicodeForms = true;
#else
inline constexpr bool kHasUnicodeForms = false;
#endif

}  // namespace etna
