# cmake -DBUILD=... -DSOURCE=... -DGENERATOR=... -DCXX=... -DTYPE=... -P install_and_use.cmake
set(work ${BUILD}/package_test)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "${what} failed:\n${said}")
  endif()
  message(STATUS "${what}: done")
endfunction()

run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

# The package must not need the source tree: no header points into it, no file of the package names it.
file(GLOB_RECURSE configs ${prefix}/*.cmake)
get_filename_component(tree ${SOURCE}/../../.. ABSOLUTE)
foreach(config IN LISTS configs)
  file(READ ${config} text)
  string(FIND "${text}" "${tree}/" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${config} names the source tree ${tree}")
  endif()
endforeach()

set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
run("configure" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${work}/build -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${TYPE} -DCMAKE_CXX_FLAGS=${flags})
run("build" ${CMAKE_COMMAND} --build ${work}/build)
run("train" ${work}/build/train)
