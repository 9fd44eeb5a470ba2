# Toolchain for WebAssembly: the Emscripten that tools/get-emscripten brought, or the one in ETNA_EMSCRIPTEN (the folder
# with emcc and cmake/).
if(NOT ETNA_EMSCRIPTEN)
  get_filename_component(ETNA_EMSCRIPTEN "${CMAKE_CURRENT_LIST_DIR}/../build/emscripten/usr/share/emscripten" ABSOLUTE)
endif()
if(NOT EXISTS ${ETNA_EMSCRIPTEN}/cmake/Modules/Platform/Emscripten.cmake)
  message(FATAL_ERROR "No Emscripten is in ${ETNA_EMSCRIPTEN}: run tools/get-emscripten, "
    "or name the folder with emcc by -DETNA_EMSCRIPTEN=FOLDER")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ETNA_EMSCRIPTEN)
include(${ETNA_EMSCRIPTEN}/cmake/Modules/Platform/Emscripten.cmake)
