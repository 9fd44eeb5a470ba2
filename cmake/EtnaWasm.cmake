# What a WebAssembly build takes from the machine: headers. Their folders lie in /usr/include beside those of the
# machine's C library, so each is linked into a folder of its own. Defines the targets that find_package() would.
option(ETNA_WASM_THREADS "Threads by -pthread; pages need the headers COOP and COEP" OFF)

# Folders without kernels: what is downloaded counts more than their speed.
set(ETNA_SMALL_FOLDERS autograd nn optim data models train)

# Exceptions and vectors are WebAssembly's own; everything that is linked together needs the same flags.
add_compile_options(-fwasm-exceptions -msimd128)
add_link_options(-fwasm-exceptions)
if(ETNA_WASM_THREADS)
  # WebGPU's objects belong to one thread, and so would everything that waits for them.
  set(ETNA_WEBGPU OFF CACHE BOOL "" FORCE)
  add_compile_options(-pthread)
  add_link_options(-pthread)
else()
  # Copies and fills of a few known bytes become loads and stores. memory.copy is a call out of the compiled code each
  # time. Shared memory demands it.
  add_compile_options(-mno-bulk-memory -mno-bulk-memory-opt)
endif()

if(ETNA_WEBGPU)
  # C++ waits for promises.
  add_link_options(-sJSPI=1 -Wno-experimental)
endif()

set(headers ${PROJECT_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
function(etna_headers target name file debian)
  cmake_parse_arguments(PARSE_ARGV 4 arg "OPTIONAL" "" "")
  find_path(ETNA_${name}_HEADERS ${file} PATHS /usr/include /usr/local/include PATH_SUFFIXES eigen3
    NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(ETNA_${name}_HEADERS)
  if(NOT ETNA_${name}_HEADERS)
    if(NOT arg_OPTIONAL)
      message(FATAL_ERROR "${file} is not here (Debian: ${debian}); name its folder by -DETNA_${name}_HEADERS=FOLDER")
    endif()
    return()
  endif()
  foreach(folder IN LISTS arg_UNPARSED_ARGUMENTS)
    file(CREATE_LINK ${ETNA_${name}_HEADERS}/${folder} ${headers}/${folder} SYMBOLIC)
  endforeach()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${headers})
endfunction()
etna_headers(Eigen3::Eigen EIGEN Eigen/Core libeigen3-dev Eigen unsupported)
etna_headers(fmt::fmt FMT fmt/format.h libfmt-dev fmt)
etna_headers(nlohmann_json::nlohmann_json JSON nlohmann/json.hpp nlohmann-json3-dev nlohmann)
etna_headers(hwy::hwy HIGHWAY hwy/highway.h libhwy-dev hwy OPTIONAL)
file(STRINGS ${headers}/fmt/core.h version REGEX "^#define FMT_VERSION")
if(version MATCHES " (9|10)[0-9][0-9][0-9][0-9]$")
  add_library(etna_fmt OBJECT ${CMAKE_CURRENT_LIST_DIR}/fmt_library.cpp)
  target_include_directories(etna_fmt SYSTEM PRIVATE ${headers})
  set_property(GLOBAL APPEND PROPERTY ETNA_FOLDERS etna_fmt)
else()
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
endif()
add_library(Threads::Threads INTERFACE IMPORTED GLOBAL)

# What every folder includes, compiled once a folder: a third of the time.
set(ETNA_PRECOMPILED <algorithm> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <vector> <fmt/format.h>)

# etna_node_program(TARGET): a program for node, which sees the machine's files and environment.
function(etna_node_program target)
  target_link_options(${target} PRIVATE -sNODERAWFS=1 -sEXIT_RUNTIME=1 -sENVIRONMENT=node,worker -sALLOW_MEMORY_GROWTH=1
    -sMAXIMUM_MEMORY=4GB -sSTACK_SIZE=4MB)
  if(ETNA_WEBGPU)
    set(pre ${PROJECT_SOURCE_DIR}/device/webgpu/node_program.js)
    target_link_options(${target} PRIVATE --pre-js=${pre} -sEXPORTED_FUNCTIONS=_main,_malloc)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${pre})
  endif()
  if(ETNA_WASM_THREADS)
    target_link_options(${target} PRIVATE -sPROXY_TO_PTHREAD=1 -sPTHREAD_POOL_SIZE=4 -Wno-pthreads-mem-growth)
  endif()
endfunction()
