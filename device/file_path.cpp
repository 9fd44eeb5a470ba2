#include <etna/device/file_path.h>

#include <filesystem>

namespace etna {

FilePath FilePath::operator/(const FilePath& name) const {
  const std::filesystem::path folder = *this;
  return folder / name;
}

}  // namespace etna
