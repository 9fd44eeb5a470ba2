# etna_commit: programs that link it state the commit they are built from (train/receipt.h). Each build asks git, and
# compiles the one source of it anew only if the answer is another: the library is not touched.
set(commit_source ${PROJECT_BINARY_DIR}/generated/program_commit.cpp)
add_custom_target(etna_commit_source
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${commit_source}
    -P ${PROJECT_SOURCE_DIR}/cmake/WriteCommit.cmake
  BYPRODUCTS ${commit_source}
  COMMENT "")
add_library(etna_commit OBJECT ${commit_source})
add_dependencies(etna_commit etna_commit_source)
target_compile_features(etna_commit PRIVATE cxx_std_20)
