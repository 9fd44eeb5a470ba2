# Compiles shaders/*.comp to SPIR-V and embeds them.
#
# A shader names its variants in comments at its top, one a line:
#     // variant: softmax_f32            (no defines)
#     // variant: elementwise_int CLASS=1 WIDE
#     // requires: GL_KHR_cooperative_matrix
# Each variant becomes one custom command with a dependency file, and etna::shaders::<variant> (<etna/shaders.h>). A variant
# that requires an extension the GLSL compiler lacks is embedded empty; one status line says so.

# What an earlier configuration found by itself is searched anew: tools/get-glslang may have brought a newer one since.
if(ETNA_GLSLANG AND ETNA_GLSLANG STREQUAL "${ETNA_GLSLANG_FOUND}")
  unset(ETNA_GLSLANG CACHE)
endif()
if(NOT ETNA_GLSLANG)
  find_program(ETNA_GLSLANG NAMES glslangValidator glslang HINTS ${PROJECT_BINARY_DIR}/glslang/bin
    ${PROJECT_SOURCE_DIR}/build/glslang/bin REQUIRED)
  set(ETNA_GLSLANG_FOUND ${ETNA_GLSLANG} CACHE INTERNAL "")
endif()

# Does the compiler know this extension? Cached by compiler path.
function(etna_probe_extension extension result)
  string(MAKE_C_IDENTIFIER "ETNA_HAS_${extension}_${ETNA_GLSLANG}" key)
  if(NOT DEFINED ${key})
    set(probe ${PROJECT_BINARY_DIR}/probe_${extension}.comp)
    file(WRITE ${probe} "#version 460\n#extension ${extension} : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n")
    execute_process(COMMAND ${ETNA_GLSLANG} -V --target-env vulkan1.2 -o ${probe}.spv ${probe}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(${key} OFF CACHE INTERNAL "")
    else()
      set(${key} ON CACHE INTERNAL "")
    endif()
  endif()
  set(${result} ${${key}} PARENT_SCOPE)
endfunction()

# etna_shaders(): objects with every variant of this folder's .comp files, and the header that declares them.
function(etna_shaders)
  file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.comp)
  set(out ${CMAKE_CURRENT_BINARY_DIR})
  set(declarations "")
  set(cpps "")
  set(lacking "")
  foreach(shader IN LISTS shaders)
    get_filename_component(family ${shader} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader})
    file(STRINGS ${shader} requirements REGEX "^// requires: ")
    set(usable ON)
    foreach(line IN LISTS requirements)
      string(REGEX REPLACE "^// requires: *" "" extension "${line}")
      etna_probe_extension(${extension} has)
      if(NOT has)
        set(usable OFF)
        list(APPEND lacking ${extension})
      endif()
    endforeach()
    file(STRINGS ${shader} variants REGEX "^// variant: ")
    if(NOT variants)
      message(FATAL_ERROR "${shader} declares no '// variant:'")
    endif()
    set(includes "")
    set(definitions "")
    set(headers "")
    foreach(line IN LISTS variants)
      string(REGEX REPLACE "^// variant: *" "" line "${line}")
      separate_arguments(words UNIX_COMMAND "${line}")
      list(POP_FRONT words variant)
      string(APPEND declarations "extern const vulkan::Shader ${variant};\n")
      if(usable)
        list(TRANSFORM words PREPEND -D)
        set(header ${out}/${variant}.spv.h)
        add_custom_command(OUTPUT ${header}
          COMMAND ${ETNA_GLSLANG} -V --target-env vulkan1.2 --quiet -I${CMAKE_CURRENT_SOURCE_DIR}/lib -I${out} ${words}
            --depfile ${header}.d --vn ${variant}_words -o ${header} ${shader}
          DEPENDS ${shader} ${ETNA_GENERATED_GLSL} DEPFILE ${header}.d VERBATIM COMMENT "GLSL ${variant}")
        list(APPEND headers ${header})
        string(APPEND includes "#include \"${variant}.spv.h\"\n")
        string(APPEND definitions "const vulkan::Shader ${variant}{\"${variant}\", ${variant}_words};\n")
      else()
        string(APPEND definitions "const vulkan::Shader ${variant}{\"${variant}\", {}};\n")
      endif()
    endforeach()
    set(cpp ${out}/${family}.shader.cpp)
    file(CONFIGURE OUTPUT ${cpp} @ONLY CONTENT
"#include <etna/shaders/shaders.h>\nnamespace {\n${includes}}\nnamespace etna::shaders {\n${definitions}}\n")
    set_source_files_properties(${cpp} PROPERTIES OBJECT_DEPENDS "${headers}")
    list(APPEND cpps ${cpp})
  endforeach()
  file(CONFIGURE OUTPUT ${ETNA_INCLUDE_DIR}/etna/shaders/shaders.h @ONLY CONTENT
"// Generated: one object a shader variant.\n#pragma once\n#include <etna/device/vulkan/kernel.h>\nnamespace etna::shaders {\n${declarations}}\n")
  list(REMOVE_DUPLICATES lacking)
  if(lacking)
    list(JOIN lacking ", " lacking)
    message(STATUS "Shaders: ${ETNA_GLSLANG} lacks ${lacking}; those kernels are left out (tools/get-glslang brings a newer one)")
  else()
    message(STATUS "Shaders: every variant is built, by ${ETNA_GLSLANG}")
  endif()
  if(cpps)
    add_library(etna_shaders OBJECT ${cpps})
    target_include_directories(etna_shaders PRIVATE ${out})
    target_link_libraries(etna_shaders PRIVATE etna_options)
    set_property(GLOBAL APPEND PROPERTY ETNA_FOLDERS etna_shaders)
  endif()
endfunction()
