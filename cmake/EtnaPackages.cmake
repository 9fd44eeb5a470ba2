# The packages of the library. Without ETNA_MINIMAL all are required; with it, only Eigen, fmt and nlohmann-json are,
# and only Highway is looked for besides. Sources ask by ETNA_HAS_<PACKAGE>, which etna_options defines.
if(EMSCRIPTEN)
  include(EtnaWasm)
else()
  set(THREADS_PREFER_PTHREAD_FLAG ON)
  find_package(Threads REQUIRED)
endif()
if(CMAKE_CROSSCOMPILING AND ETNA_MINIMAL)
  include(EtnaHeaders)
else()
  find_package(Eigen3 3.4 REQUIRED NO_MODULE)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
endif()

# etna_packages: what every folder links.
add_library(etna_packages INTERFACE)
target_link_libraries(etna_packages INTERFACE Eigen3::Eigen fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
set(ETNA_PACKAGE_LIBRARIES fmt::fmt Threads::Threads)

# etna_highway: for targets that include Highway. Version 1.0.3 (Debian 12) tests `HWY_BASELINE & HWY_AVX3_DL` where it
# means `HWY_BASELINE_AVX3_DL`: on a processor with AVX-512 VBMI2 and VNNI it disables that target and stops with an
# error. This definition avoids that; later versions ignore it.
add_library(etna_highway INTERFACE)
target_compile_definitions(etna_highway INTERFACE HWY_WANT_AVX3_DL)
# Highway compiles its NEON functions for +crypto and inlines them by force; constructors that a compiler makes have no
# attribute to match. GCC uses none of these instructions by itself, so processors without them are served as well.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND NOT ETNA_NATIVE)
  target_compile_options(etna_highway INTERFACE -march=armv8-a+crypto)
endif()

if(ETNA_MINIMAL)
  if(NOT CMAKE_CROSSCOMPILING)
    find_package(hwy QUIET)
  endif()
else()
  find_package(TBB REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(hwy REQUIRED)
  find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
  find_library(XXHASH_LIBRARY xxhash REQUIRED)
  find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
  find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
  find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
  find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
  target_link_libraries(etna_packages INTERFACE TBB::tbb spdlog::spdlog)
  target_include_directories(etna_packages SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR} ${PCRE2_INCLUDE_DIR}
    ${UTF8PROC_INCLUDE_DIR})
  target_compile_definitions(etna_packages INTERFACE ETNA_HAS_TBB ETNA_HAS_SPDLOG ETNA_HAS_XXHASH ETNA_HAS_PCRE2
    ETNA_HAS_UTF8PROC)
  list(APPEND ETNA_PACKAGE_LIBRARIES TBB::tbb spdlog::spdlog ${XXHASH_LIBRARY} ${PCRE2_LIBRARY} ${UTF8PROC_LIBRARY})
endif()
if(TARGET hwy::hwy)
  set(ETNA_HIGHWAY ON)
  target_link_libraries(etna_highway INTERFACE hwy::hwy)
  list(APPEND ETNA_PACKAGE_LIBRARIES hwy::hwy)
else()
  set(ETNA_HIGHWAY OFF)
  target_include_directories(etna_highway INTERFACE ${PROJECT_SOURCE_DIR}/device/internal/cpu/one_lane)
endif()

if(ETNA_MINIMAL)
  set(without "threads by std::thread; gemm by Etna and Eigen; no regular expressions but those of known \
tokenizers, no Unicode normal forms, no .gz, .npz, .pt, PNG, JPEG")
  if(NOT ETNA_HIGHWAY)
    string(PREPEND without "kernels without vectors, since Highway is not here (libhwy-dev); ")
  endif()
  message(STATUS "Minimal build: ${without}")
endif()

# etna_httplib: cpp-httplib (libcpp-httplib-dev), of the server alone. pkg-config knows with which options the library
# was compiled, which its header must be told.
if(NOT ETNA_MINIMAL AND NOT CMAKE_CROSSCOMPILING AND NOT WIN32)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
  add_library(etna_httplib INTERFACE)
  target_link_libraries(etna_httplib INTERFACE PkgConfig::HTTPLIB)
endif()
