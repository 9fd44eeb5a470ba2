#include <etna/dist/internal/place.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

namespace etna::distributed {
namespace {

/// A launcher's variables. Local ones may be missing.
struct Launcher {
  const char *name, *rank, *size, *local_rank, *local_size;
  bool mpi;
};
constexpr Launcher kLaunchers[] = {
    {"environment", "ETNA_RANK", "ETNA_WORLD_SIZE", "ETNA_LOCAL_RANK", "", false},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", true},
};

int number_of(const char* name, std::string_view text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    throw Error(
        fmt::format("distributed: {} is '{}'; a number of at least {} was expected", name, text.substr(0, 40), least));
  return value;
}

}  // namespace

Place find_place(const Options& options, const char* (*variable)(const char*)) {
  const auto value = [&](const char* name) -> std::string_view {
    const char* text = *name != 0 ? variable(name) : nullptr;
    return text != nullptr ? text : "";
  };
  Place place;
  for (const Launcher& launcher : kLaunchers) {
    if (value(launcher.rank).empty() || value(launcher.size).empty()) continue;
    place.launcher = launcher.name;
    place.mpi = launcher.mpi;
    place.rank = number_of(launcher.rank, value(launcher.rank), 0);
    place.size = number_of(launcher.size, value(launcher.size), 1);
    if (const auto text = value(launcher.local_rank); !text.empty())
      place.local_rank = number_of(launcher.local_rank, text, 0);
    if (const auto text = value(launcher.local_size); !text.empty())
      place.local_size = number_of(launcher.local_size, text, 1);
    break;
  }
  // Processes that mpirun started and that got numbers of their own are still MPI's.
  if (place.launcher == "environment") place.mpi = !value("OMPI_COMM_WORLD_RANK").empty() || !value("PMI_RANK").empty();
  if ((options.rank >= 0) != (options.size >= 0))
    throw Error(
        fmt::format("distributed: options give rank {} and size {}; give both or none", options.rank, options.size));
  if (options.size >= 0) {
    place.rank = options.rank, place.size = options.size;
    if (place.launcher.empty()) place.launcher = "environment";
  }
  if (place.size < 1 || place.rank >= place.size)
    throw Error(fmt::format("distributed: rank {} of {} ranks; ranks are numbered from 0", place.rank, place.size));
  place.meet = !options.meet.empty() ? options.meet : std::string(value("ETNA_MEET"));
  if (place.meet.empty() && place.launcher == "torchrun" && !value("MASTER_ADDR").empty()) {
    int port = number_of("MASTER_PORT", value("MASTER_PORT"), 1);
    if (value("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;  // torchrun itself listens at MASTER_PORT
    place.meet = fmt::format("{}:{}", value("MASTER_ADDR"), port);
  }
  return place;
}

}  // namespace etna::distributed
