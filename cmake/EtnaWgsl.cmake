# Translates the kernels to WGSL for WebGPU (docs/webgpu.md).
#
# etna_wgsl(): the target etna_wgsl, which writes wgsl/kernels.json of the build folder from every variant of the
# shaders. Needs node 18 (nodejs), tint (tools/get-tint) and the GLSL compiler. Off unless ETNA_WGSL is ON.
option(ETNA_WGSL "Translate the kernels to WGSL (target etna_wgsl)" OFF)

if(ETNA_WGSL)
  find_program(ETNA_NODE NAMES node nodejs REQUIRED)
  find_program(ETNA_TINT NAMES tint HINTS ${PROJECT_BINARY_DIR}/tint/bin ${PROJECT_SOURCE_DIR}/build/tint/bin)
  if(NOT ETNA_TINT)
    message(FATAL_ERROR "ETNA_WGSL needs tint: tools/get-tint brings it into build/tint, or set -DETNA_TINT=PROGRAM")
  endif()
endif()

function(etna_wgsl)
  if(NOT ETNA_WGSL)
    return()
  endif()
  set(tools ${PROJECT_SOURCE_DIR}/tools/wgsl)
  set(heap ${CMAKE_CURRENT_SOURCE_DIR}/webgpu/heap.glsl)
  file(GLOB sources CONFIGURE_DEPENDS ${tools}/*.mjs)
  set(out ${PROJECT_BINARY_DIR}/wgsl)
  file(MAKE_DIRECTORY ${out}/variants)
  file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/*.comp)
  set(names ${CMAKE_CURRENT_BINARY_DIR}/fused_names.txt)
  set(translated "")
  foreach(shader IN LISTS shaders)
    etna_shader_variants(${shader} variants)
    foreach(line IN LISTS variants)
      separate_arguments(words UNIX_COMMAND "${line}")
      list(POP_FRONT words variant)
      list(TRANSFORM words PREPEND -D)
      set(json ${out}/variants/${variant}.json)
      add_custom_command(OUTPUT ${json}
        COMMAND ${ETNA_NODE} ${tools}/translate.mjs --glslang ${ETNA_GLSLANG} --tint ${ETNA_TINT} --heap ${heap}
          --out ${json} --depfile ${json}.d -I${CMAKE_CURRENT_SOURCE_DIR}/lib -I${CMAKE_CURRENT_BINARY_DIR}
          -I${PROJECT_SOURCE_DIR} ${words} ${variant} ${shader}
        DEPENDS ${shader} ${heap} ${sources} ${ETNA_GENERATED_GLSL} ${CMAKE_CURRENT_BINARY_DIR}/fused_rows.glsl
        DEPFILE ${json}.d
        VERBATIM COMMENT "WGSL ${variant}")
      list(APPEND translated ${json})
    endforeach()
  endforeach()
  add_custom_command(OUTPUT ${out}/kernels.json
    COMMAND ${ETNA_NODE} ${tools}/bundle.mjs --out ${out}/kernels.json --names ${names} ${out}/variants
    DEPENDS ${translated} ${names} ${tools}/bundle.mjs VERBATIM COMMENT "WGSL: all kernels in one file")
  add_custom_target(etna_wgsl DEPENDS ${out}/kernels.json)
  list(TRANSFORM translated REPLACE ".*/" "" OUTPUT_VARIABLE names)
  list(JOIN names "\n" names)
  # Variants that are gone leave their files; the bundle takes those of this list.
  file(CONFIGURE OUTPUT ${out}/variants/list @ONLY CONTENT "${names}\n")
endfunction()
