# cmake -DBUILD=... -DTREE=... -DGENERATOR=... -DCXX=... -DTYPE=... -DSANITIZE=... -DCLI=...
#   -DBINDIR=... -DDOCDIR=... -DDATADIR=... -P install_and_use.cmake
cmake_minimum_required(VERSION 3.25)
set(work ${BUILD}/package_test)
set(prefix ${work}/moved)
file(REMOVE_RECURSE ${work})
unset(ENV{LD_LIBRARY_PATH})

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "${what} failed:\n${said}")
  endif()
  if(said MATCHES "CMake (Deprecation )?Warning")
    message(FATAL_ERROR "${what} warned:\n${said}")
  endif()
  message(STATUS "${what}: done")
  set(said "${said}" PARENT_SCOPE)
endfunction()

run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
file(RENAME ${work}/prefix ${prefix})

# The package must not need the source tree: no header points into it, no file of the package names it.
file(GLOB_RECURSE configs ${prefix}/*.cmake)
foreach(config IN LISTS configs)
  file(READ ${config} text)
  string(FIND "${text}" "${TREE}/" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${config} names the source tree ${TREE}")
  endif()
endforeach()

# Installed programs find their library beside them.
if(CLI)
  run("etna doctor --help" ${prefix}/${BINDIR}/etna doctor --help)
endif()

# Every page is installed, and its links lead to files that are.
set(doc ${prefix}/${DOCDIR})
file(READ ${doc}/README.md readme)
file(GLOB_RECURSE pages RELATIVE ${TREE} ${TREE}/docs/*.md)
list(FILTER pages EXCLUDE REGEX "^docs/reference/")
foreach(page IN LISTS pages ITEMS LICENSE CONTRIBUTING.md)
  if(NOT EXISTS ${doc}/${page})
    message(FATAL_ERROR "${page} is not installed: there is no ${doc}/${page}")
  endif()
endforeach()
run("links of the installed docs" ${CMAKE_COMMAND} -E env ETNA_LINKS_ROOT=${doc}
  ${BUILD}/bin/test_structure --gtest_filter=Links.*)

set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
# configure(NAME FOLDER): configures the project against the prefix.
macro(configure name folder)
  run("configure ${name}" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${folder} -B ${work}/${name} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${TYPE} -DCMAKE_CXX_FLAGS=${flags})
endmacro()

# The program, the project and the output that README prints. Digits differ between processors; lines do not.
function(printed what expression result)
  if(NOT readme MATCHES "${expression}")
    message(FATAL_ERROR "README.md prints no ${what}")
  endif()
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()
printed("program" "```cpp\n([^`]*int main\\(\\)[^`]*)```" program)
printed("project" "```cmake\n([^`]*find_package\\(etna[^`]*)```" project)
printed("output of the program" "```\n(step 100 loss [^`]*)```" output)
file(WRITE ${work}/readme/train.cpp "${program}")
file(WRITE ${work}/readme/CMakeLists.txt "${project}")
configure(readme_build ${work}/readme)
run("build of README's program" ${CMAKE_COMMAND} --build ${work}/readme_build)
run("README's program" ${CMAKE_COMMAND} -E env ETNA_DEVICE=cpu ${work}/readme_build/train)
string(REGEX REPLACE "[0-9]" "N" output "${output}")
string(REGEX REPLACE "[0-9]" "N" said "${said}")
if(NOT said STREQUAL output)
  message(FATAL_ERROR "README's program printed\n${said}and README says\n${output}")
endif()

# Every installed example is a project; two are built, one of them with a kernel of its own.
file(GLOB examples RELATIVE ${prefix}/${DATADIR}/etna/examples ${prefix}/${DATADIR}/etna/examples/*)
foreach(example IN LISTS examples)
  if(example MATCHES "^(linear|custom_op)$" OR CLI)
    configure(${example} ${prefix}/${DATADIR}/etna/examples/${example})
  endif()
endforeach()
foreach(example linear custom_op)
  run("build of examples/${example}" ${CMAKE_COMMAND} --build ${work}/${example})
  run("examples/${example}" ${CMAKE_COMMAND} -E env ETNA_DEVICE=cpu ${work}/${example}/${example})
endforeach()
