#pragma once

#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace etna {

/// The process of a rank that `ancestor` started by `etna launch` or --gpus; 0 where there is none, and on systems
/// without /proc.
inline pid_t process_of_rank(pid_t ancestor, int rank) {
  const auto content = [](const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  const auto parent_of = [&](int process) {
    const std::string stat = content("/proc/" + std::to_string(process) + "/stat");
    const std::size_t end = stat.rfind(')');
    return end == std::string::npos ? 0 : std::atoi(stat.c_str() + end + 4);
  };
  const std::string variable = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + '\0';
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (content(entry.path() / "cmdline").find("--as-rank") != std::string::npos) continue;
    if (content(entry.path() / "environ").find(variable) == std::string::npos) continue;
    for (int up = std::atoi(name.c_str()), i = 0; up > 1 && i < 8; up = parent_of(up), ++i)
      if (up == ancestor) return std::atoi(name.c_str());
  }
  return 0;
}

}  // namespace etna
