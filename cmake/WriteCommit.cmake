# Writes OUT, a source with the commit of SOURCE, if it would be another.
cmake_minimum_required(VERSION 3.25)
find_program(git git)
set(commit unknown)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND said MATCHES "^[0-9a-f]+(-dirty)?$")
    set(commit ${said})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include <string_view>

namespace etna::training {
void set_program_commit(std::string_view commit);
namespace {
[[maybe_unused]] const bool kStated = (set_program_commit(\"@commit@\"), true);
}
}  // namespace etna::training
")
