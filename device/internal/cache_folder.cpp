#include <etna/device/internal/cache_folder.h>

#include <cstdlib>

#include <etna/device/internal/os/folders.h>

namespace etna {

std::filesystem::path cache_folder() {
  if (const char* own = std::getenv("ETNA_CACHE_DIR"); own != nullptr && *own != '\0') return own;
  const std::filesystem::path all = os::user_folder(os::UserFolder::cache);
  return all.empty() ? all : all / "etna";
}

}  // namespace etna
