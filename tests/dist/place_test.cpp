#include <map>
#include <string>

#include <gmock/gmock.h>

#include <etna/dist/internal/place.h>

// Where a process is in its group, by what launchers set.
namespace etna::distributed {
namespace {

std::map<std::string, std::string> variables;

const char* variable(const char* name) {
  const auto found = variables.find(name);
  return found != variables.end() ? found->second.c_str() : nullptr;
}

Place place_with(std::map<std::string, std::string> given, const Options& options = {}) {
  variables = std::move(given);
  return find_place(options, variable);
}

std::string refusal(std::map<std::string, std::string> given, const Options& options = {}) {
  try {
    place_with(std::move(given), options);
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Place, NothingLaunchedIsAGroupOfOne) {
  const Place place = place_with({});
  EXPECT_EQ(place.size, 1);
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.launcher, "");
  // A shell inside an allocation of Slurm is one process, whatever the allocation has.
  EXPECT_EQ(place_with({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).size, 1);
}

TEST(Place, KnowsTheLaunchers) {
  const Place open = place_with({{"OMPI_COMM_WORLD_RANK", "3"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(open.rank, 3);
  EXPECT_EQ(open.size, 4);
  EXPECT_EQ(open.local_rank, 1);
  EXPECT_EQ(open.local_size, 2);
  EXPECT_TRUE(open.mpi);
  EXPECT_EQ(open.meet, "");
  const Place mpich = place_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}});
  EXPECT_EQ(mpich.rank, 1);
  EXPECT_EQ(mpich.local_rank, 1);
  EXPECT_EQ(mpich.local_size, -1);
  EXPECT_TRUE(mpich.mpi);
  const Place slurm = place_with({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(slurm.launcher, "srun");
  EXPECT_EQ(slurm.rank, 5);
  EXPECT_TRUE(slurm.mpi);
  std::map<std::string, std::string> torch = {{"RANK", "1"},
                                              {"WORLD_SIZE", "2"},
                                              {"LOCAL_RANK", "0"},
                                              {"LOCAL_WORLD_SIZE", "1"},
                                              {"MASTER_ADDR", "10.0.0.1"},
                                              {"MASTER_PORT", "29500"}};
  EXPECT_EQ(place_with(torch).meet, "10.0.0.1:29500");
  EXPECT_FALSE(place_with(torch).mpi);
  // torchrun's own store listens at that port.
  torch["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(place_with(torch).meet, "10.0.0.1:29501");
}

TEST(Place, WhatIsSaidComesFirst) {
  const std::map<std::string, std::string> both = {
      {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"ETNA_MEET", "a:1"}};
  EXPECT_EQ(place_with(both).meet, "a:1");
  EXPECT_EQ(place_with(both, {.meet = "b:2"}).meet, "b:2");
  EXPECT_EQ(place_with(both, {.rank = 0, .size = 2}).size, 2);
  EXPECT_EQ(place_with({{"ETNA_RANK", "1"}, {"ETNA_WORLD_SIZE", "2"}}).rank, 1);
}

TEST(Place, RefusesNumbersThatMakeNoSense) {
  EXPECT_THAT(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), testing::HasSubstr("RANK is 'x'"));
  EXPECT_THAT(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), testing::HasSubstr("RANK is '-1'"));
  EXPECT_THAT(refusal({{"RANK", "99999999999"}, {"WORLD_SIZE", "2"}}), testing::HasSubstr("RANK is '99999999999'"));
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), testing::HasSubstr("rank 2 of 2 ranks"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), testing::HasSubstr("WORLD_SIZE is '0'"));
  EXPECT_THAT(refusal({}, {.rank = 1}), testing::HasSubstr("give both or none"));
}

}  // namespace
}  // namespace etna::distributed
