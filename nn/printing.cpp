#include <etna/nn/module.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace etna::nn {

std::string repr_of(bool value) { return value ? "True" : "False"; }

std::string repr_of(double value) {
  std::string text = fmt::format("{}", value);
  return std::isfinite(value) && text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string repr_of(const Dims& dims, std::int64_t none) {
  std::string text;
  for (const std::int64_t size : dims)
    text += (text.empty() ? "" : ", ") + (size == none ? "None" : fmt::format("{}", size));
  return dims.rank() == 1 ? text : "(" + text + ")";
}

std::string repr_of(const Dims& dims) { return repr_of(dims, std::numeric_limits<std::int64_t>::min()); }

std::string repr_of(const char* name, double value) { return fmt::format("{}={}", name, repr_of(value)); }

std::string tuple_of(const Dims& dims, int count) {
  const Dims all = dims.rank() == 1 ? Dims::filled(count, dims[0]) : dims;
  return all.rank() == 1 ? fmt::format("({},)", all[0]) : repr_of(all);
}

}  // namespace etna::nn
