# Compiles shaders/<family>/*.comp to SPIR-V and embeds them.
#
# A shader names its variants in comments at its top, one per line:
#     // variant: softmax_f32            (no defines)
#     // variant: elementwise_int CLASS=1 WIDE
#     // variant: <rule>_step RULE_<rule>   (one for each optimizer's rule, ETNA_OPTIMIZER_RULES)
#     // requires: GL_KHR_cooperative_matrix
#     // target: vulkan1.3               (default: vulkan1.2; some extensions need SPIR-V 1.6)
# Each variant becomes etna::shaders::<variant> (<etna/shaders.h>). compile.cpp compiles all in one process, but for
# those that require an extension, or where there is no glslang library: these are a command each, with a dependency
# file. A variant that requires an extension the GLSL compiler lacks is embedded empty; one status line says so.

# A compiler found by an earlier configuration is searched for again: tools/get-glslang may have installed a newer one.
if(ETNA_GLSLANG AND ETNA_GLSLANG STREQUAL "${ETNA_GLSLANG_FOUND}")
  unset(ETNA_GLSLANG CACHE)
endif()
if((ETNA_VULKAN OR ETNA_WGSL) AND NOT ETNA_GLSLANG)
  find_program(ETNA_GLSLANG NAMES glslangValidator glslang HINTS ${PROJECT_BINARY_DIR}/glslang/bin
    ${PROJECT_SOURCE_DIR}/build/glslang/bin REQUIRED)
  set(ETNA_GLSLANG_FOUND ${ETNA_GLSLANG} CACHE INTERNAL "")
endif()

# Does the compiler support this extension for this target? Cached by compiler path.
function(etna_probe_extension extension target result)
  string(MAKE_C_IDENTIFIER "ETNA_HAS_${extension}_${target}_${ETNA_GLSLANG}" key)
  if(NOT DEFINED ${key})
    set(probe ${PROJECT_BINARY_DIR}/probe_${extension}.comp)
    file(WRITE ${probe} "#version 460\n#extension ${extension} : require\n"
      "layout(local_size_x = 1) in;\nvoid main() {}\n")
    execute_process(COMMAND ${ETNA_GLSLANG} -V --target-env ${target} -o ${probe}.spv ${probe}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(${key} OFF CACHE INTERNAL "")
    else()
      set(${key} ON CACHE INTERNAL "")
    endif()
  endif()
  set(${result} ${${key}} PARENT_SCOPE)
endfunction()

# The variants that a shader names, one "name define..." each.
function(etna_shader_variants shader result)
  file(STRINGS ${shader} variants REGEX "^// variant: ")
  if(NOT variants)
    message(FATAL_ERROR "${shader} declares no '// variant:'")
  endif()
  set(expanded "")
  foreach(line IN LISTS variants)
    string(REGEX REPLACE "^// variant: *" "" line "${line}")
    if(line MATCHES "<rule>")
      foreach(rule IN LISTS ETNA_OPTIMIZER_RULES)
        string(REPLACE "<rule>" ${rule} of_rule "${line}")
        list(APPEND expanded "${of_rule}")
      endforeach()
    else()
      list(APPEND expanded "${line}")
    endif()
  endforeach()
  set(${result} "${expanded}" PARENT_SCOPE)
endfunction()

# etna_shaders(): objects with every variant of this folder's .comp files, and the header that declares them.
function(etna_shaders)
  file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/*.comp)
  list(FILTER shaders EXCLUDE REGEX "/webgpu/")
  set(out ${CMAKE_CURRENT_BINARY_DIR})
  set(declarations "")
  set(list "")
  set(binaries "")
  set(embedded "")
  set(definitions "")
  set(lacking "")
  set(together "")
  set(lines "include ${CMAKE_CURRENT_SOURCE_DIR}/lib\ninclude ${out}\ninclude ${PROJECT_SOURCE_DIR}\n")
  foreach(shader IN LISTS shaders)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader})
    set(target vulkan1.2)
    file(STRINGS ${shader} targets REGEX "^// target: ")
    if(targets)
      string(REGEX REPLACE "^// target: *([^ ]+).*" "\\1" target "${targets}")
    endif()
    file(STRINGS ${shader} requirements REGEX "^// requires: ")
    # Without Vulkan the kernels keep their names and have no code: ops that name them still link.
    set(usable ${ETNA_VULKAN})
    if(NOT usable)
      set(requirements "")
    endif()
    foreach(line IN LISTS requirements)
      string(REGEX REPLACE "^// requires: *" "" extension "${line}")
      etna_probe_extension(${extension} ${target} has)
      if(NOT has)
        set(usable OFF)
        list(APPEND lacking ${extension})
      endif()
    endforeach()
    etna_shader_variants(${shader} variants)
    foreach(line IN LISTS variants)
      separate_arguments(words UNIX_COMMAND "${line}")
      list(POP_FRONT words variant)
      string(APPEND declarations "extern const gpu::Shader ${variant};\n")
      string(APPEND list "&${variant},\n")
      if(usable)
        set(binary ${out}/${variant}.spv)
        if(ETNA_GLSLANG_LIBRARIES AND NOT CMAKE_CROSSCOMPILING AND NOT requirements)
          list(JOIN words " " words)
          string(APPEND lines "variant ${binary} ${shader} ${target} ${words}\n")
          list(APPEND together ${binary})
        else()
          list(TRANSFORM words PREPEND -D)
          add_custom_command(OUTPUT ${binary}
            COMMAND ${ETNA_GLSLANG} -V --target-env ${target} --quiet
              -I${CMAKE_CURRENT_SOURCE_DIR}/lib -I${out} -I${PROJECT_SOURCE_DIR} ${words}
              --depfile ${binary}.d -o ${binary} ${shader}
            DEPENDS ${shader} ${ETNA_GENERATED_GLSL} DEPFILE ${binary}.d VERBATIM COMMENT "GLSL ${variant}")
        endif()
        list(APPEND binaries ${binary})
        string(APPEND embedded "ETNA_EMBED(spirv_${variant}, \"${binary}\")\n")
        string(APPEND definitions "const gpu::Shader ${variant}{\"${variant}\", words(embedded::spirv_${variant}())};\n")
      else()
        string(APPEND definitions "const gpu::Shader ${variant}{\"${variant}\", {}};\n")
      endif()
    endforeach()
  endforeach()
  if(together)
    add_executable(etna_compile_shaders compile.cpp)
    target_compile_features(etna_compile_shaders PRIVATE cxx_std_20)
    target_compile_options(etna_compile_shaders PRIVATE $<$<CONFIG:Release>:-O0>)
    target_link_libraries(etna_compile_shaders PRIVATE ${ETNA_GLSLANG_LIBRARIES} Threads::Threads)
    file(CONFIGURE OUTPUT ${out}/variants.txt @ONLY CONTENT "${lines}")
    file(GLOB included CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/lib/*.glsl
      ${PROJECT_SOURCE_DIR}/tables/optimizers/*.rule ${PROJECT_SOURCE_DIR}/tables/*.def)
    add_custom_command(OUTPUT ${together} COMMAND etna_compile_shaders ${out}/variants.txt
      DEPENDS etna_compile_shaders ${out}/variants.txt ${shaders} ${included} ${ETNA_GENERATED_GLSL}
        ${out}/optimizer_rule.glsl
      VERBATIM COMMENT "GLSL, all variants")
  endif()
  file(CONFIGURE OUTPUT ${ETNA_INCLUDE_DIR}/etna/shaders/shaders.h @ONLY CONTENT
"// Generated: every shader variant.\n#pragma once\n#include <etna/device/kernel.h>\n\
namespace etna::shaders {\n${declarations}}\n")
  file(CONFIGURE OUTPUT ${ETNA_INCLUDE_DIR}/etna/shaders/all.h @ONLY CONTENT
"// Generated.\n#pragma once\n#include <span>\n#include <etna/device/kernel.h>\n\
namespace etna::shaders {\n/// Every shader variant, by family.\nstd::span<const gpu::Shader* const> all();\n}\n")
  file(CONFIGURE OUTPUT ${out}/all.cpp @ONLY CONTENT
"#include <etna/shaders/all.h>\n#include <etna/shaders/shaders.h>\n#include \"${CMAKE_CURRENT_SOURCE_DIR}/embed.h\"\n\
namespace etna::embedded {\n${embedded}}\nnamespace etna::shaders {\n${definitions}std::span<const gpu::Shader* const> all() {\n\
static constexpr const gpu::Shader* kAll[] = {\n${list}};\nreturn kAll;\n}\n}\n")
  set_source_files_properties(${out}/all.cpp PROPERTIES OBJECT_DEPENDS "${binaries}")
  list(REMOVE_DUPLICATES lacking)
  if(lacking)
    list(JOIN lacking ", " lacking)
    message(STATUS "Shaders: ${ETNA_GLSLANG} lacks ${lacking}; those kernels are left out "
      "(tools/get-glslang brings a newer one)")
  elseif(ETNA_VULKAN)
    message(STATUS "Shaders: every variant is built, by ${ETNA_GLSLANG}")
  endif()
  add_library(etna_shaders OBJECT ${out}/all.cpp)
  target_link_libraries(etna_shaders PRIVATE etna_options)
  set_property(GLOBAL APPEND PROPERTY ETNA_FOLDERS etna_shaders)
endfunction()
