#include <filesystem>

#include <dlfcn.h>

#include <fmt/format.h>

#include <etna/dist/internal/open_transport.h>

namespace etna::distributed {
namespace {

#ifdef __APPLE__
constexpr const char* kModule = "libetna_mpi.dylib";
#else
constexpr const char* kModule = "libetna_mpi.so";
#endif

/// The folder of libetna, or of the program that it is a part of.
std::filesystem::path own_folder() {
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::canonical(info.dli_fname, ignored).parent_path();
}

}  // namespace

std::unique_ptr<Transport> open_mpi_transport(std::string& error) {
  const std::filesystem::path folder = own_folder();
  void* module = nullptr;
  for (const std::filesystem::path& place :
       {folder / kModule, folder / ".." / "lib" / kModule, std::filesystem::path(kModule)}) {
    // Global: MPI loads modules of its own, which look for its names.
    module = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module != nullptr) break;
    std::error_code ignored;
    if (error.empty() || std::filesystem::exists(place, ignored)) error = ::dlerror();
  }
  if (module == nullptr) {
    error = fmt::format("{} cannot be loaded ({}); build Etna where MPI is (Debian: libopenmpi-dev)", kModule, error);
    return nullptr;
  }
  const auto open = reinterpret_cast<OpenTransport>(::dlsym(module, kOpenTransport));
  if (open == nullptr) {
    error = fmt::format("{} in {} is of another version of Etna", kModule, folder.string());
    return nullptr;
  }
  const char* wrong = "MPI cannot be used";
  std::unique_ptr<Transport> transport(open(&wrong));
  if (transport == nullptr) error = wrong;
  return transport;
}

}  // namespace etna::distributed
