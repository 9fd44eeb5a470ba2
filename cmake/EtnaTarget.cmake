# Targets of the tree: etna_folder() makes one object library a folder, etna_library() joins them into libetna and installs it.

# <etna/...> resolves in the tree through links to the source folders, so that sources and users write the same includes.
set(ETNA_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${ETNA_INCLUDE_DIR}/etna)

add_library(etna_options INTERFACE)
target_compile_features(etna_options INTERFACE cxx_std_20)
target_compile_options(etna_options INTERFACE -Wall -Wextra -Wpedantic $<$<BOOL:${ETNA_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:GNU>:-fno-math-errno -fno-trapping-math> $<$<CXX_COMPILER_ID:Clang>:-fno-math-errno>)
# GCC 12 turns std::vector<double>{1, 1, 0, 0} into four ones where AVX-512 is on (seen with 12.2 at -O2): its
# straight-line vectorizer stays off. Loops are vectorized as before.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(etna_options INTERFACE -fno-tree-slp-vectorize)
endif()
if(ETNA_NATIVE)
  target_compile_options(etna_options INTERFACE -march=native)
endif()
if(ETNA_SANITIZE)
  target_compile_options(etna_options INTERFACE -fsanitize=${ETNA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(etna_options INTERFACE -fsanitize=${ETNA_SANITIZE})
endif()
target_include_directories(etna_options SYSTEM INTERFACE ${VOLK_INCLUDE_DIR} ${VULKAN_INCLUDE_DIR})
target_include_directories(etna_options INTERFACE ${ETNA_INCLUDE_DIR})

# etna_folder(NAME LIBRARIES...): objects of every .cpp below this folder.
function(etna_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  if(NOT EXISTS ${ETNA_INCLUDE_DIR}/etna/${name})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${ETNA_INCLUDE_DIR}/etna/${name} SYMBOLIC)
  endif()
  if(NOT sources)
    return()
  endif()
  add_library(etna_${name} OBJECT ${sources})
  target_link_libraries(etna_${name} PRIVATE etna_options Eigen3::Eigen TBB::tbb fmt::fmt spdlog::spdlog
    nlohmann_json::nlohmann_json Threads::Threads ${ARGN})
  set_property(GLOBAL APPEND PROPERTY ETNA_FOLDERS etna_${name})
endfunction()

function(etna_library)
  if(NOT EXISTS ${ETNA_INCLUDE_DIR}/etna/etna.h)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/etna.h ${ETNA_INCLUDE_DIR}/etna/etna.h SYMBOLIC)
  endif()
  get_property(folders GLOBAL PROPERTY ETNA_FOLDERS)
  set(objects)
  foreach(folder IN LISTS folders)
    list(APPEND objects $<TARGET_OBJECTS:${folder}>)
  endforeach()
  add_library(etna ${objects})
  add_library(etna::etna ALIAS etna)
  target_compile_features(etna PUBLIC cxx_std_20)
  target_include_directories(etna PUBLIC $<BUILD_INTERFACE:${ETNA_INCLUDE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(etna PRIVATE $<BUILD_INTERFACE:etna_options> TBB::tbb fmt::fmt spdlog::spdlog hwy::hwy
    Threads::Threads ${CMAKE_DL_LIBS} ${ETNA_GLSLANG_LIBRARIES} $<$<BOOL:${ETNA_ONEDNN_FOUND}>:${ONEDNN_LIBRARY}>)
  set_target_properties(etna PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

  include(CMakePackageConfigHelpers)
  install(TARGETS etna EXPORT etnaTargets)
  install(EXPORT etnaTargets NAMESPACE etna:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/etna)
  foreach(folder device tensor autograd nn optim data)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/etna
      FILES_MATCHING PATTERN "*.h" PATTERN "elementwise.def")
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/etna.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/etna)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/etnaConfig.cmake.in ${PROJECT_BINARY_DIR}/etnaConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/etna)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/etnaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/etnaConfig.cmake ${PROJECT_BINARY_DIR}/etnaConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/etna)
endfunction()
