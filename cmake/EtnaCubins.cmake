# Compiles shaders/sm90/*.cu to machine code for Hopper GPUs and embeds it, if there is an nvcc. CUDA is not needed at
# run time.
#
# A file names its kernels in comments at its top, one per line:
#     // kernel: gemm_bf16
# Each becomes etna::cubins::<kernel> (<etna/shaders/cubins.h>), empty where they are not built. nvcc takes minutes for
# them, so they are built where a Hopper GPU is (AUTO), or where asked for (ON, as `./run test` and `./run bench` do).
set(ETNA_CUBINS AUTO CACHE STRING "Build the kernels for Hopper GPUs by nvcc: ON, OFF or AUTO")
if(NOT DEFINED ETNA_NVCC OR ETNA_NVCC MATCHES "NOTFOUND")
  find_program(ETNA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin
    DOC "CUDA compiler for the Hopper kernels, or OFF")
endif()

# Is there a GPU of compute capability 9.0?
function(etna_has_hopper result)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
  set(${result} OFF PARENT_SCOPE)
  if(NOT failed AND capabilities MATCHES "(^|\n)9\\.0")
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# Does nvcc support the architecture and these flags, and does a host compiler work with it? Cached.
function(etna_probe_nvcc result)
  set(works OFF)
  if(ETNA_NVCC)
    string(MAKE_C_IDENTIFIER "ETNA_BUILDS_sm_90a_${ETNA_NVCC}_${ARGN}" key)
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
  set(wanted ${ETNA_CUBINS})
  if(wanted STREQUAL "AUTO")
    etna_has_hopper(wanted)
  endif()
  set(usable OFF)
  if(ETNA_VULKAN AND wanted)
    etna_probe_nvcc(usable ${flags})
  endif()
  set_property(GLOBAL PROPERTY ETNA_CUBINS_BUILT ${usable})  # for tests/structure
  set(declarations "")
  set(embedded "")
  set(definitions "")
  set(cubins "")
  foreach(source IN LISTS sources)
    get_filename_component(family ${source} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    set(cubin ${CMAKE_CURRENT_BINARY_DIR}/${family}.cubin)
    file(STRINGS ${source} kernels REGEX "^// kernel: ")
    foreach(line IN LISTS kernels)
      string(REGEX REPLACE "^// kernel: *([^ ]+).*" "\\1" kernel "${line}")
      string(APPEND declarations "extern const gpu::CubinKernel ${kernel};\n")
      if(usable)
        string(APPEND definitions "const gpu::CubinKernel ${kernel}{\"${kernel}\", "
          "embedded::cubin_${family}(), 90};\n")
      else()
        string(APPEND definitions "const gpu::CubinKernel ${kernel}{\"${kernel}\", {}, 90};\n")
      endif()
    endforeach()
    if(usable)
      string(APPEND embedded "ETNA_EMBED(cubin_${family}, \"${cubin}\")\n")
      list(APPEND cubins ${cubin})
      add_custom_command(OUTPUT ${cubin}
        COMMAND ${ETNA_NVCC} ${flags} -MD -MF ${cubin}.d -MT ${cubin} -o ${cubin} ${source}
        DEPENDS ${source} DEPFILE ${cubin}.d VERBATIM COMMENT "CUDA ${family} for sm_90a")
    endif()
  endforeach()
  set(cpp ${CMAKE_CURRENT_BINARY_DIR}/cubins.cpp)
  file(CONFIGURE OUTPUT ${cpp} @ONLY CONTENT
"#include <etna/shaders/cubins.h>\n#include \"${CMAKE_CURRENT_SOURCE_DIR}/embed.h\"\nnamespace etna::embedded {\n${embedded}}\n\
namespace etna::cubins {\n${definitions}}\n")
  set_source_files_properties(${cpp} PROPERTIES OBJECT_DEPENDS "${cubins}")
  target_sources(${objects} PRIVATE ${cpp})
  file(CONFIGURE OUTPUT ${ETNA_INCLUDE_DIR}/etna/shaders/cubins.h @ONLY CONTENT
"// Generated: one object a kernel of shaders/sm90/.\n#pragma once\n#include <etna/device/kernel.h>\n\
namespace etna::cubins {\n${declarations}}\n")
  if(usable)
    message(STATUS "Cubins: kernels for Hopper are built, by ${ETNA_NVCC}")
  elseif(wanted)
    message(STATUS "Cubins: no nvcc that builds for sm_90a was found; "
      "Hopper GPUs run the portable kernels (-DETNA_NVCC=/path/to/nvcc)")
  else()
    message(STATUS "Cubins: off; Hopper GPUs run the portable kernels (-DETNA_CUBINS=ON)")
  endif()
endfunction()
