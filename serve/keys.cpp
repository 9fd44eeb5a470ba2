#include <etna/serve/internal/keys.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/serve/http_server.h>

namespace etna::serve {

std::optional<std::size_t> Keys::find(const std::string& key) const {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const std::string& known = keys_[i];
    volatile unsigned difference = known.size() == key.size() ? 0 : 1;
    for (std::size_t at = 0; at < key.size(); ++at) {
      const char wanted = known.empty() ? '\0' : known[at % known.size()];
      difference = difference | static_cast<unsigned>(static_cast<unsigned char>(wanted ^ key[at]));
    }
    if (difference == 0 && !key.empty()) found = i;
  }
  return found;
}

std::vector<std::string> read_keys(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw FormatError(fmt::format("{}: the file of API keys cannot be read", file));
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const auto visible = [](unsigned char c) { return c > 32 && c < 127; };
    if (!std::all_of(line.begin(), line.end(), visible))
      throw FormatError(fmt::format("{}:{}: a key has visible ASCII characters only, without spaces", file, number));
    keys.push_back(line);
  }
  if (in.bad()) throw FormatError(fmt::format("{}: the file of API keys cannot be read", file));
  if (keys.empty()) throw FormatError(fmt::format("{}: has no API key; write one per line", file));
  return keys;
}

}  // namespace etna::serve
