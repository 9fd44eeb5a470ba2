# What a WebAssembly build has of its own.
option(ETNA_WASM_THREADS "Threads by -pthread; pages need the headers COOP and COEP" OFF)

# Folders without kernels: what is downloaded counts more than their speed.
set(ETNA_SMALL_FOLDERS autograd nn optim data models train)

# Exceptions and vectors are WebAssembly's own; everything that is linked together needs the same flags.
add_compile_options(-fwasm-exceptions -msimd128)
add_link_options(-fwasm-exceptions)
if(ETNA_WASM_THREADS)
  add_compile_options(-pthread)
  add_link_options(-pthread)
endif()

add_library(Threads::Threads INTERFACE IMPORTED GLOBAL)

# What every folder includes, compiled once a folder: a third of the time.
set(ETNA_PRECOMPILED <algorithm> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <vector> <fmt/format.h>)

# etna_node_program(TARGET): a program for node, which sees the machine's files and environment.
function(etna_node_program target)
  target_link_options(${target} PRIVATE -sNODERAWFS=1 -sEXIT_RUNTIME=1 -sENVIRONMENT=node,worker -sALLOW_MEMORY_GROWTH=1
    -sMAXIMUM_MEMORY=4GB -sSTACK_SIZE=4MB)
  if(ETNA_WASM_THREADS)
    target_link_options(${target} PRIVATE -sPROXY_TO_PTHREAD=1 -sPTHREAD_POOL_SIZE=4 -Wno-pthreads-mem-growth)
  endif()
endfunction()
