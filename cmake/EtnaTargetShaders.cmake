# etna_target_shaders(TARGET shader.comp...): compiles compute shaders of a program to SPIR-V and embeds them.
#
# scale.comp becomes `etna::shaders::scale`, declared in <scale.comp.h>, which etna::gpu::Kernel takes. Shaders may
# include Etna's own (dtype.glsl, index.glsl ...). Without a GLSL compiler the kernels are empty; they then cannot run.
function(etna_target_shaders target)
  if(NOT ETNA_GLSLANG)
    find_program(ETNA_GLSLANG NAMES glslangValidator glslang)
  endif()
  if(NOT ETNA_GLSLANG)
    message(STATUS "${target}: no GLSL compiler (glslangValidator) was found; its GPU kernels are left out")
  endif()
  set(includes ${ETNA_SHADER_INCLUDE_DIR})
  list(TRANSFORM includes PREPEND -I)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${target}_shaders)
  file(MAKE_DIRECTORY ${out})
  foreach(shader IN LISTS ARGN)
    get_filename_component(shader ${shader} ABSOLUTE)
    get_filename_component(name ${shader} NAME_WE)
    set(include "")
    set(words "{}")
    if(ETNA_GLSLANG)
      set(include "#include \"${name}.spv.h\"\n")
      set(words ${name}_words)
      add_custom_command(OUTPUT ${out}/${name}.spv.h
        COMMAND ${ETNA_GLSLANG} -V --target-env vulkan1.2 --quiet ${includes}
          --depfile ${out}/${name}.d --vn ${name}_words -o ${out}/${name}.spv.h ${shader}
        DEPENDS ${shader} DEPFILE ${out}/${name}.d VERBATIM COMMENT "GLSL ${name}")
      set_source_files_properties(${out}/${name}.comp.cpp PROPERTIES OBJECT_DEPENDS ${out}/${name}.spv.h)
    endif()
    file(CONFIGURE OUTPUT ${out}/${name}.comp.h @ONLY CONTENT
"#pragma once\n#include <etna/device/kernel.h>\nnamespace etna::shaders {\nextern const gpu::Shader ${name};\n}\n")
    file(CONFIGURE OUTPUT ${out}/${name}.comp.cpp @ONLY CONTENT
"#include <${name}.comp.h>\nnamespace {\n${include}}\n\
namespace etna::shaders {\nconst gpu::Shader ${name}{\"${name}\", ${words}};\n}\n")
    target_sources(${target} PRIVATE ${out}/${name}.comp.cpp)
  endforeach()
  target_include_directories(${target} PRIVATE ${out})
endfunction()
