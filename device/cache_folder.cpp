#include <etna/device/cache_folder.h>

#include <cstdlib>

namespace etna {

std::filesystem::path cache_folder() {
  namespace fs = std::filesystem;
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (fs::path own = variable("ETNA_CACHE_DIR"); !own.empty()) return own;
  if (fs::path xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "etna";
  if (fs::path home = variable("HOME"); !home.empty()) return home / ".cache" / "etna";
  return {};
}

}  // namespace etna
