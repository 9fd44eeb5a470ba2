# etna_tests(TARGET NAME name [SHARDS n] [COST seconds] [ENVIRONMENT variable=value...] [LABELS label...]
#            [ALONE name=filter...] [SERIAL name...])
#
# The tests of a GoogleTest program as a few processes, since most tests take less time than a process takes to make its
# Vulkan device: ctest sees NAME.0, NAME.1 ..., each a shard, and NAME.<name> for tests that need a process of their own
# (ALONE, with GoogleTest's filter). With ETNA_TEST_EACH in its environment ctest sees each test by its own name, in a
# process of its own. Nothing else runs beside those of SERIAL, which measure time.
#
# COST: about how many seconds a shard takes, so that long ones start first. SHARDS had better be odd: GoogleTest deals
# tests out in turn, and those that run on the CPU and on the GPU alternate.
include(GoogleTest)

set(ETNA_TESTS_RAN ${PROJECT_BINARY_DIR}/tests/ran)
file(MAKE_DIRECTORY ${ETNA_TESTS_RAN})
if(ETNA_SANITIZE)
  set(ETNA_TEST_TIMEOUT 5400)
else()
  set(ETNA_TEST_TIMEOUT 1800)
endif()

# Appends a process to `lines`, and its name to `processes`, of the caller.
function(etna_test_process target name cost shard shards filter)
  # `env` sets the environment, since a list in a property does not survive the scripts between here and ctest.
  set(command env ${ETNA_TEST_ENVIRONMENT} ${arg_ENVIRONMENT} ETNA_TESTS_RAN=${ETNA_TESTS_RAN}/${name}
    GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${shard}
    ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${target}> --gtest_filter=${filter})
  list(JOIN command "]=] [=[" command)
  set(serial FALSE)
  if(name IN_LIST arg_SERIAL)
    set(serial TRUE)
  endif()
  string(APPEND lines "  add_test([=[${name}]=] [=[${command}]=])\n"
    "  set_tests_properties([=[${name}]=] PROPERTIES TIMEOUT ${ETNA_TEST_TIMEOUT} COST ${cost}"
    " RUN_SERIAL ${serial} LABELS [=[${arg_LABELS}]=])\n")
  set(lines "${lines}" PARENT_SCOPE)
  set(processes ${processes} ${name} PARENT_SCOPE)
endfunction()

function(etna_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;SHARDS;COST" "ENVIRONMENT;LABELS;ALONE;SERIAL")
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_COST)
    set(arg_COST 10)
  endif()
  etna_unity(${target})
  set(lines "")
  set(processes "")
  set(filters "")
  foreach(alone IN LISTS arg_ALONE)
    string(REGEX MATCH "^([^=]*)=(.*)$" alone ${alone})
    etna_test_process(${target} ${arg_NAME}.${CMAKE_MATCH_1} ${arg_COST} 0 1 ${CMAKE_MATCH_2})
    list(APPEND filters ${CMAKE_MATCH_2})
  endforeach()
  list(JOIN filters ":" filters)
  set(rest "*")
  if(filters)
    set(rest "*-${filters}")
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    etna_test_process(${target} ${arg_NAME}.${shard} ${arg_COST} ${shard} ${arg_SHARDS} ${rest})
  endforeach()

  set_target_properties(${target} PROPERTIES CROSSCOMPILING_EMULATOR
    "env;${ETNA_TEST_ENVIRONMENT};${arg_ENVIRONMENT};${CMAKE_CROSSCOMPILING_EMULATOR}")
  if(EMSCRIPTEN)
    etna_node_program(${target})
    target_link_options(${target} PRIVATE -O1)  # Binaryen's passes would take longer than the tests
  endif()
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS "${arg_LABELS}")
  get_property(files DIRECTORY PROPERTY TEST_INCLUDE_FILES)
  list(POP_BACK files each)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_tests.cmake)
  file(GENERATE OUTPUT ${file} CONTENT
    "if(DEFINED ENV{ETNA_TEST_EACH})\n  include([=[${each}]=])\nelse()\n${lines}endif()\n")
  set_property(DIRECTORY PROPERTY TEST_INCLUDE_FILES ${files} ${file})

  list(JOIN processes "," list)
  set_property(GLOBAL APPEND PROPERTY ETNA_TEST_PROGRAMS "$<TARGET_FILE:${target}>=${list}")
  set_property(GLOBAL APPEND PROPERTY ETNA_TEST_PROCESSES ${processes})
endfunction()

# etna_program_path(VARIABLE TARGET): what a test names to run a program: its file, or where programs need an emulator,
# a script that hands it over.
function(etna_program_path variable target)
  set(${variable} $<TARGET_FILE:${target}> PARENT_SCOPE)
  if(CMAKE_CROSSCOMPILING_EMULATOR AND NOT WIN32)
    set(script ${CMAKE_CURRENT_BINARY_DIR}/emulated_${target})
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR "' '" emulator)
    file(GENERATE OUTPUT ${script} CONTENT "#!/bin/sh\nexec '${emulator}' '$<TARGET_FILE:${target}>' \"$@\"\n"
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    set(${variable} ${script} PARENT_SCOPE)
  endif()
endfunction()

# To be called behind all etna_tests(): a test that the processes ran all tests, each once.
function(etna_every_test)
  get_property(programs GLOBAL PROPERTY ETNA_TEST_PROGRAMS)
  get_property(processes GLOBAL PROPERTY ETNA_TEST_PROCESSES)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/programs.txt)
  list(JOIN programs "\n" programs)
  file(GENERATE OUTPUT ${list} CONTENT "${programs}\n")
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/every_test.cmake)
  file(GENERATE OUTPUT ${file} CONTENT
    "if(NOT DEFINED ENV{ETNA_TEST_EACH})
  add_test(tests.every_test_ran_once [=[${PROJECT_SOURCE_DIR}/tests/runner/every_test.sh]=] ran
    [=[${ETNA_TESTS_RAN}]=] [=[${list}]=])
  set_tests_properties(tests.every_test_ran_once PROPERTIES DEPENDS [=[${processes}]=]
    ENVIRONMENT [=[ETNA_EMULATOR=${emulator}]=])
endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()
