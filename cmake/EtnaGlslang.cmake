# The GLSL compiler as a library, for kernels that are generated at run time (docs/capture.md). Without it, captured
# steps run their ops one by one; nothing else needs it. Sets ETNA_GLSLANG_LIBRARIES.
option(ETNA_FUSION "Compile fused kernels at run time, where glslang is found" ON)
set(ETNA_GLSLANG_LIBRARIES "")
set(why "ETNA_FUSION is OFF")
if(ETNA_FUSION)
  set(why "no glslang library was found (Debian and Ubuntu: glslang-dev, spirv-tools)")
  # Older glslang packages do not find their dependencies; newer ones merge all but two of their libraries.
  find_package(SPIRV-Tools CONFIG QUIET)
  find_package(SPIRV-Tools-opt CONFIG QUIET)
  find_package(glslang CONFIG QUIET)
  if(TARGET glslang::glslang AND TARGET glslang::glslang-default-resource-limits)
    set(ETNA_GLSLANG_LIBRARIES glslang::glslang glslang::glslang-default-resource-limits)
    if(TARGET glslang::SPIRV)
      list(PREPEND ETNA_GLSLANG_LIBRARIES glslang::SPIRV)
    endif()
    # A package may be complete and still not link.
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_LIBRARIES ${ETNA_GLSLANG_LIBRARIES} Threads::Threads)
    check_cxx_source_compiles("
      #include <glslang/Include/glslang_c_interface.h>
      #include <glslang/Public/resource_limits_c.h>
      #include <glslang/build_info.h>
      int main() {
        glslang_initialize_process();
        glslang_program_SPIRV_generate(glslang_program_create(), GLSLANG_STAGE_COMPUTE);
        return glslang_default_resource() == nullptr;
      }" ETNA_GLSLANG_LINKS)
    unset(CMAKE_REQUIRED_LIBRARIES)
    if(NOT ETNA_GLSLANG_LINKS)
      set(ETNA_GLSLANG_LIBRARIES "")
      set(why "glslang ${glslang_VERSION} was found, but a program with it does not link")
    endif()
  endif()
endif()
if(ETNA_GLSLANG_LIBRARIES)
  message(STATUS "Fusion: elementwise ops of captured steps are fused, by glslang ${glslang_VERSION}")
else()
  message(STATUS "Fusion: off, since ${why}; captured steps run their ops one by one")
endif()
unset(why)
