#include <etna/device/internal/vulkan/executable/fusion/sources.h>

#include <set>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/shaders/sources.h>

namespace etna::vulkan::fusion {
namespace {

constexpr std::string_view kInclude = "#include \"", kPrologue = "prologue.glsl";

/// @param name a file's, in any folder
std::string_view embedded(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  for (const shaders::Source& source : shaders::sources()) {
    if (name == source.name) return source.text;
  }
  return {};
}

/// Files have include guards; including each once keeps the text short.
void append(std::string_view text, std::string_view prologue, std::set<std::string_view>& seen, std::string& out) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!line.starts_with(kInclude)) {
      out += line;
      out += '\n';
      continue;
    }
    const std::string_view rest = line.substr(kInclude.size()), name = rest.substr(0, rest.find('"'));
    if (name == kPrologue && prologue.empty()) {
      out += line;
      out += '\n';
      continue;
    }
    if (!seen.insert(name).second) continue;
    const std::string_view included = name == kPrologue ? prologue : embedded(name);
    if (included.empty()) throw DeviceError(fmt::format("the shader source {} is not part of this build", name));
    append(included, prologue, seen, out);
  }
}

}  // namespace

std::string with_includes(std::string_view text, std::string_view prologue) {
  if (std::string_view file = embedded(text); !file.empty()) text = file;
  std::string out;
  std::set<std::string_view> seen;
  append(text, prologue, seen, out);
  return out;
}

}  // namespace etna::vulkan::fusion
