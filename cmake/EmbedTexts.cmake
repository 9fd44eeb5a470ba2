# cmake -DTO=file.cpp -DFILES=a|b|c -P EmbedTexts.cmake: the files as etna::shaders::sources(), without comments that
# begin a line.
string(REPLACE "|" ";" files "${FILES}")
set(entries "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
  string(APPEND entries "    {\"${name}\", R\"glsl(${text})glsl\"},\n")
endforeach()
file(WRITE ${TO} "#include <etna/shaders/sources.h>
namespace etna::shaders {
std::span<const Source> sources() {
  static constexpr Source all[] = {
${entries}  };
  return all;
}
}  // namespace etna::shaders
")
