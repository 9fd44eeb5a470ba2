# What a WebAssembly build has of its own.
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

add_library(Threads::Threads INTERFACE IMPORTED GLOBAL)

# What every folder includes, compiled once a folder: a third of the time.
set(ETNA_PRECOMPILED <algorithm> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <vector> <fmt/format.h>)

# etna_node_program(TARGET): a program for node, which sees the machine's files and environment.
function(etna_node_program target)
  target_link_options(${target} PRIVATE -sNODERAWFS=1 -sEXIT_RUNTIME=1 -sENVIRONMENT=node,worker -sALLOW_MEMORY_GROWTH=1
    -sMAXIMUM_MEMORY=4GB -sSTACK_SIZE=4MB)
  if(ETNA_WEBGPU)
    set(pre ${PROJECT_SOURCE_DIR}/device/internal/webgpu/node_program.js)
    target_link_options(${target} PRIVATE --pre-js=${pre} -sEXPORTED_FUNCTIONS=_main,_malloc)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${pre})
  endif()
  if(ETNA_WASM_THREADS)
    target_link_options(${target} PRIVATE -sPROXY_TO_PTHREAD=1 -sPTHREAD_POOL_SIZE=4 -Wno-pthreads-mem-growth)
  endif()
endfunction()
