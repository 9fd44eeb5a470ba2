#include "weight_format.h"

#include <fmt/format.h>

#include <etna/tensor/io/gguf.h>
#include <etna/train/progress.h>

namespace etna::cli {
namespace {

bool is_writable(const quant::BlockFormat& format) { return format.can_quantize() && io::gguf_type_of(format); }

/// "q4_k" of "q4_k_m".
std::string without_mix(const std::string& name) {
  const bool mix = name.size() > 4 && (name[name.size() - 3] == 'k' || name[name.size() - 3] == 'K') &&
                   name[name.size() - 2] == '_' && std::string("sSmMlL").find(name.back()) != std::string::npos;
  return mix ? name.substr(0, name.size() - 2) : name;
}

}  // namespace

const quant::BlockFormat* writable_format(const std::string& name) {
  const quant::BlockFormat* format = quant::find_format(without_mix(name));
  return format != nullptr && is_writable(*format) ? format : nullptr;
}

std::string unknown_format(const std::string& name) {
  std::string names;
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (is_writable(format)) names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  }
  return fmt::format("--to is '{}'; it should be one of {}", training::shortened(name, 40), names);
}

}  // namespace etna::cli
