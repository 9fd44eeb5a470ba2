# Targets of the tree: etna_folder() makes one object library per folder; etna_library() links them into libetna and
# installs it.

# In the tree, <etna/...> resolves through links to the source folders, so that sources and users write the same
# includes.
set(ETNA_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${ETNA_INCLUDE_DIR}/etna)

add_library(etna_options INTERFACE)
target_compile_features(etna_options INTERFACE cxx_std_20)
target_compile_options(etna_options INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${ETNA_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:GNU>:-fno-math-errno -fno-trapping-math> $<$<CXX_COMPILER_ID:Clang>:-fno-math-errno>)
# With AVX-512, GCC 12 turns std::vector<double>{1, 1, 0, 0} into four ones (seen with 12.2 at -O2), so its
# straight-line vectorizer is off. Loops are vectorized as before.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(etna_options INTERFACE -fno-tree-slp-vectorize)
endif()
if(WIN32)
  # Windows 10; no macros min() and max(); POSIX's functions where mingw-w64 has them.
  target_compile_definitions(etna_options INTERFACE _WIN32_WINNT=0x0A00 NOMINMAX WIN32_LEAN_AND_MEAN _USE_MATH_DEFINES
    _POSIX_C_SOURCE=200809L __USE_MINGW_ANSI_STDIO=1)
  # GCC aligns the stack to 16 bytes there, yet moves wider vectors to it as if they were aligned (GCC bug 54412); the
  # assembler can take unaligned moves instead, which are as fast.
  target_compile_options(etna_options INTERFACE -Wa,-mbig-obj,-muse-unaligned-vector-move)
endif()
# A call inside libetna is one of what libetna defines: without the dynamic linker's table, and inlined where it pays.
if(NOT WIN32 AND NOT APPLE AND NOT EMSCRIPTEN)
  target_compile_options(etna_options INTERFACE -fno-semantic-interposition)
endif()
# -march=native has another meaning on another processor. A definition records which, so that a build folder that is
# moved, or an object cache that several machines share, is compiled anew.
if(ETNA_NATIVE)
  target_compile_options(etna_options INTERFACE -march=native)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null
    OUTPUT_VARIABLE native ERROR_QUIET)
  foreach(set AVX2 AVX512VNNI)
    if(native MATCHES "__${set}__")
      set(ETNA_NATIVE_${set} ON)
    endif()
  endforeach()
  string(MD5 native "${native}")
  string(SUBSTRING ${native} 0 8 native)
  target_compile_definitions(etna_options INTERFACE ETNA_PROCESSOR=0x${native})
  set(native "${native} ${CMAKE_CXX_COMPILER_VERSION}")
  if(ETNA_CONFIGURED_FOR AND NOT ETNA_CONFIGURED_FOR STREQUAL native
      AND ETNA_CONFIGURED_FOR MATCHES " ${CMAKE_CXX_COMPILER_VERSION}$")
    message(STATUS "This build folder was configured on another processor, "
      "for which -march=native means other instructions: "
      "all of it is compiled anew")
  endif()
  set(ETNA_CONFIGURED_FOR "${native}" CACHE INTERNAL "What -march=native meant, and to which compiler")
endif()

if(ETNA_SANITIZE)
  target_compile_options(etna_options INTERFACE -fsanitize=${ETNA_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(etna_options INTERFACE -fsanitize=${ETNA_SANITIZE})
endif()
target_include_directories(etna_options INTERFACE ${ETNA_INCLUDE_DIR})

# The INSTALL_RPATH of a program that is installed: libetna's place relative to it, so that a prefix may be moved.
# Dependencies outside the system's folders are found by their paths.
file(RELATIVE_PATH ETNA_PROGRAM_RPATH /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
if(APPLE)
  string(PREPEND ETNA_PROGRAM_RPATH @loader_path/)
else()
  string(PREPEND ETNA_PROGRAM_RPATH $ORIGIN/)
endif()
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# etna_unity(TARGET): compiles the target's sources a few at a time, since most of a source's time goes into its
# headers. What the sources of a target define in unnamed namespaces has names that are unique in the target. Sources
# with flags of their own, or with code for several instruction sets, stay alone. -DETNA_UNITY=OFF compiles each source
# alone, for work on a few of them.
option(ETNA_UNITY "Compile several sources at a time" ON)
set(ETNA_UNITY_BYTES 150000 CACHE STRING "Bytes of source compiled at a time")
mark_as_advanced(ETNA_UNITY_BYTES)
function(etna_unity target)
  set(together "")
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(unit 0)
  set(bytes 0)
  foreach(source IN LISTS sources)
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${folder})
    if(NOT path MATCHES "\\.cpp$" OR NOT EXISTS ${path})
      continue()
    endif()
    get_source_file_property(options ${path} COMPILE_OPTIONS)
    get_source_file_property(definitions ${path} COMPILE_DEFINITIONS)
    file(STRINGS ${path} alone LIMIT_COUNT 1 REGEX
         "^(#(pragma GCC|define ETNA_TARGET|include <hwy/foreach_target)|ETNA_BEGIN_TARGET)")
    if(options OR definitions OR alone)
      continue()
    endif()
    string(APPEND together "${path}\n")
    file(SIZE ${path} size)
    math(EXPR bytes "${bytes} + ${size}")
    if(bytes GREATER ETNA_UNITY_BYTES)
      math(EXPR unit "${unit} + 1")
      set(bytes ${size})
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
  endforeach()
  # For tests/structure/unity_test.cpp.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/unity/${target}.txt CONTENT "${together}")
  if(NOT ETNA_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC means headers by this warning, and takes the sources of a unit for some.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# etna_folder(NAME LIBRARIES... [EXCLUDE REGEX] [PART NAME|REGEX|OPTIONS]... [OPTIONS OPTIONS]): objects of every .cpp
# below this folder, but for those of other systems (NAME_posix.cpp, NAME_windows.cpp). Sources whose path matches a
# PART's expression are compiled with its options; where it begins with "text:", also those with a line that matches.
# What belongs to no part is compiled with OPTIONS.
function(etna_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 folder "" "EXCLUDE;OPTIONS" "PART")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  if(folder_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${folder_EXCLUDE})
  endif()
  if(WIN32)
    list(FILTER sources EXCLUDE REGEX "_posix\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "_windows\\.cpp$")
  endif()
  if(NOT EXISTS ${ETNA_INCLUDE_DIR}/etna/${name})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${ETNA_INCLUDE_DIR}/etna/${name} SYMBOLIC)
  endif()
  foreach(part IN LISTS folder_PART)
    string(REGEX MATCH "^([^|]*)\\|(.*)\\|([^|]*)$" part "${part}")
    set(part_name ${CMAKE_MATCH_1})
    set(expression "${CMAKE_MATCH_2}")
    set(options ${CMAKE_MATCH_3})
    set(chosen ${sources})
    if(expression MATCHES "^text:(.*)$")
      set(expression "${CMAKE_MATCH_1}")
      foreach(source IN LISTS sources)
        file(STRINGS ${source} line LIMIT_COUNT 1 REGEX "${expression}")
        if(NOT line AND NOT source MATCHES "${expression}")
          list(REMOVE_ITEM chosen ${source})
        endif()
      endforeach()
    else()
      list(FILTER chosen INCLUDE REGEX "${expression}")
    endif()
    list(REMOVE_ITEM sources ${chosen})
    etna_objects(etna_${name}_${part_name} "${chosen}" "${options}" ${folder_UNPARSED_ARGUMENTS})
  endforeach()
  etna_objects(etna_${name} "${sources}" "${folder_OPTIONS}" ${folder_UNPARSED_ARGUMENTS})
endfunction()

# For code that calls kernels: it has no loops worth unrolling, and -O3 takes twice the time of -O1. Code that runs
# often between kernels, or over characters, is worth -O2.
set(ETNA_HOST_OPTIONS $<$<CONFIG:Release>:-O1>)
set(ETNA_BUSY_HOST_OPTIONS $<$<CONFIG:Release>:-O2>)

# etna_objects(TARGET SOURCES OPTIONS LIBRARIES...): an object library that becomes part of libetna.
function(etna_objects target sources options)
  if(NOT sources)
    return()
  endif()
  add_library(${target} OBJECT ${sources})
  target_link_libraries(${target} PRIVATE etna_options etna_packages ${ARGN})
  if(ETNA_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${ETNA_PRECOMPILED})
  endif()
  string(REGEX REPLACE "^etna_([a-z]+).*" "\\1" folder ${target})
  if(folder IN_LIST ETNA_SMALL_FOLDERS)
    target_compile_options(${target} PRIVATE -Os)
  elseif(options)
    target_compile_options(${target} PRIVATE ${options})
  endif()
  etna_unity(${target})
  set_property(GLOBAL APPEND PROPERTY ETNA_FOLDERS ${target})
endfunction()

function(etna_library)
  foreach(link etna.h tables)
    if(NOT EXISTS ${ETNA_INCLUDE_DIR}/etna/${link})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${link} ${ETNA_INCLUDE_DIR}/etna/${link} SYMBOLIC)
    endif()
  endforeach()
  get_property(folders GLOBAL PROPERTY ETNA_FOLDERS)
  set(objects)
  foreach(folder IN LISTS folders)
    list(APPEND objects $<TARGET_OBJECTS:${folder}>)
  endforeach()
  add_library(etna ${objects})
  add_library(etna::etna ALIAS etna)
  target_compile_features(etna PUBLIC cxx_std_20)
  target_include_directories(etna PUBLIC $<BUILD_INTERFACE:${ETNA_INCLUDE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(etna PRIVATE $<BUILD_INTERFACE:etna_options> ${ETNA_PACKAGE_LIBRARIES} ${CMAKE_DL_LIBS}
    ${ETNA_GLSLANG_LIBRARIES} $<$<BOOL:${ETNA_ONEDNN_FOUND}>:${ONEDNN_LIBRARY}> ${ETNA_FORMAT_LIBRARIES})
  # Nothing calls the constructor that checks the processor, so a static library must be told to link it.
  if(NOT BUILD_SHARED_LIBS AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_link_options(etna INTERFACE LINKER:--undefined=etna_check_processor)
  endif()
  if(BUILD_SHARED_LIBS AND NOT WIN32 AND NOT APPLE)
    target_link_options(etna PRIVATE LINKER:-Bsymbolic-functions)
  endif()
  set_target_properties(etna PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

  include(CMakePackageConfigHelpers)
  install(TARGETS etna EXPORT etnaTargets)
  install(EXPORT etnaTargets NAMESPACE etna:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/etna)
  # Public by place: all headers but those in folders internal/, and the tables that they include.
  foreach(folder device tensor autograd dist nn optim data models train)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/etna
      FILES_MATCHING PATTERN "*.h" PATTERN internal EXCLUDE)
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/tables/elementwise.def ${PROJECT_SOURCE_DIR}/tables/activations.def
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/etna/tables)
  install(FILES ${PROJECT_SOURCE_DIR}/etna.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/etna)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/etnaConfig.cmake.in ${PROJECT_BINARY_DIR}/etnaConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/etna PATH_VARS CMAKE_INSTALL_DATADIR)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/etnaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  # Shaders of programs include Etna's.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/shaders/lib/ DESTINATION ${CMAKE_INSTALL_DATADIR}/etna/shaders)
  install(FILES ${PROJECT_SOURCE_DIR}/tables/activations.def
    DESTINATION ${CMAKE_INSTALL_DATADIR}/etna/shaders/tables)
  install(FILES ${PROJECT_BINARY_DIR}/etnaConfig.cmake ${PROJECT_BINARY_DIR}/etnaConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/EtnaTargetShaders.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/etna)
endfunction()
