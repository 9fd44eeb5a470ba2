# Compiles shaders/sm90/*.cu to machine code for Hopper GPUs and embeds it, if there is an nvcc. CUDA is not needed at
# run time.
#
# A file names its kernels in comments at its top, one per line:
#     // kernel: gemm_bf16
# Each becomes etna::cubins::<kernel> (<etna/shaders/cubins.h>), empty if there is no nvcc. -DETNA_NVCC=OFF leaves them
# out.
if(NOT DEFINED ETNA_NVCC OR ETNA_NVCC MATCHES "NOTFOUND")
  find_program(ETNA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin
    DOC "CUDA compiler for the Hopper kernels, or OFF")
endif()
set(ETNA_EMBED ${CMAKE_CURRENT_LIST_DIR}/EmbedBytes.cmake)

# Does nvcc support the architecture, and does a host compiler work with it? Cached by compiler path.
function(etna_probe_nvcc result)
  set(works OFF)
  if(ETNA_NVCC)
    string(MAKE_C_IDENTIFIER "ETNA_BUILDS_sm_90a_${ETNA_NVCC}" key)
    if(NOT DEFINED ${key})
      set(probe ${PROJECT_BINARY_DIR}/probe_sm_90a.cu)
      file(WRITE ${probe} "extern \"C\" __global__ void probe() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n")
      execute_process(COMMAND ${ETNA_NVCC} ${ARGN} -o ${probe}.cubin ${probe}
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      if(failed)
        set(${key} OFF CACHE INTERNAL "")
      else()
        set(${key} ON CACHE INTERNAL "")
      endif()
    endif()
    set(works ${${key}})
  endif()
  set(${result} ${works} PARENT_SCOPE)
endfunction()

# etna_cubins(OBJECTS): adds sources with every kernel of sm90/ to that object library, and writes the header that
# declares them.
function(etna_cubins objects)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/sm90/*.cu)
  set(flags -cubin -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -ccbin ${CMAKE_CXX_COMPILER})
  set(usable OFF)
  if(ETNA_VULKAN)
    etna_probe_nvcc(usable ${flags})
  endif()
  set(declarations "")
  foreach(source IN LISTS sources)
    get_filename_component(family ${source} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    set(cubin ${CMAKE_CURRENT_BINARY_DIR}/${family}.cubin)
    file(STRINGS ${source} kernels REGEX "^// kernel: ")
    set(definitions "")
    set(bytes "{}")
    foreach(line IN LISTS kernels)
      string(REGEX REPLACE "^// kernel: *([^ ]+).*" "\\1" kernel "${line}")
      string(APPEND declarations "extern const gpu::CubinKernel ${kernel};\n")
      if(usable)
        string(APPEND definitions "const gpu::CubinKernel ${kernel}{\"${kernel}\", "
          "std::as_bytes(std::span(${family}_cubin)), 90};\n")
      else()
        string(APPEND definitions "const gpu::CubinKernel ${kernel}{\"${kernel}\", {}, 90};\n")
      endif()
    endforeach()
    set(cpp ${CMAKE_CURRENT_BINARY_DIR}/${family}.cubin.cpp)
    set(include "")
    if(usable)
      set(include "#include \"${family}.cubin.h\"\n")
      add_custom_command(OUTPUT ${cubin}.h
        COMMAND ${ETNA_NVCC} ${flags} -MD -MF ${cubin}.d -MT ${cubin}.h -o ${cubin} ${source}
        COMMAND ${CMAKE_COMMAND} -DFROM=${cubin} -DTO=${cubin}.h -DNAME=${family}_cubin -P ${ETNA_EMBED}
        DEPENDS ${source} ${ETNA_EMBED} DEPFILE ${cubin}.d VERBATIM COMMENT "CUDA ${family} for sm_90a")
      set_source_files_properties(${cpp} PROPERTIES OBJECT_DEPENDS ${cubin}.h)
    endif()
    file(CONFIGURE OUTPUT ${cpp} @ONLY CONTENT
"#include <etna/shaders/cubins.h>\nnamespace {\n${include}}\nnamespace etna::cubins {\n${definitions}}\n")
    target_sources(${objects} PRIVATE ${cpp})
  endforeach()
  file(CONFIGURE OUTPUT ${ETNA_INCLUDE_DIR}/etna/shaders/cubins.h @ONLY CONTENT
"// Generated: one object a kernel of shaders/sm90/.\n#pragma once\n#include <etna/device/kernel.h>\n\
namespace etna::cubins {\n${declarations}}\n")
  if(usable)
    message(STATUS "Cubins: kernels for Hopper are built, by ${ETNA_NVCC}")
  else()
    message(STATUS "Cubins: no nvcc that builds for sm_90a was found; "
      "Hopper GPUs run the portable kernels (-DETNA_NVCC=/path/to/nvcc)")
  endif()
endfunction()
