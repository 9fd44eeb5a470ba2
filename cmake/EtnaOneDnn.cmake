# oneDNN does matrix multiplication on the CPU: it adapts to the processor at run time, and supports bf16. Without it,
# OpenBLAS is loaded at run time if installed, otherwise Eigen is used. Only the header and the library are searched:
# oneDNN's CMake package also requires OpenCL.
set(ETNA_ONEDNN AUTO CACHE STRING "Multiply by oneDNN on the CPU: AUTO (where it is found), ON or OFF")
set_property(CACHE ETNA_ONEDNN PROPERTY STRINGS AUTO ON OFF)
set(ETNA_ONEDNN_FOUND OFF)
if(ETNA_ONEDNN AND NOT ETNA_MINIMAL)
  find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(ONEDNN_LIBRARY dnnl)
  mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
  if(ONEDNN_INCLUDE_DIR AND ONEDNN_LIBRARY)
    set(ETNA_ONEDNN_FOUND ON)
    add_library(etna_onednn INTERFACE)
    target_include_directories(etna_onednn SYSTEM INTERFACE ${ONEDNN_INCLUDE_DIR})
    target_compile_definitions(etna_onednn INTERFACE ETNA_HAS_ONEDNN)
    message(STATUS "Products on the CPU: by oneDNN, ${ONEDNN_LIBRARY}")
  elseif(ETNA_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "ETNA_ONEDNN is ON, but oneDNN is not here (Debian: libdnnl-dev); "
      "with AUTO, OpenBLAS or Eigen do its work")
  endif()
endif()
if(NOT ETNA_ONEDNN_FOUND AND NOT ETNA_MINIMAL)
  message(STATUS "Products on the CPU: by OpenBLAS where it is installed, else by Eigen, "
    "since oneDNN is off or was not found")
endif()
