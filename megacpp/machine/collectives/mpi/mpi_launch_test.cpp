// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_launch.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/errors.h"

namespace megacpp::collectives {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<MpiLaunch> launch_with(const Variables& variables) {
  return find_mpi_launch([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(MpiLaunchTest, EveryLauncherIsKnownByItsVariables) {
  const std::optional<MpiLaunch> openmpi = launch_with({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  ASSERT_TRUE(openmpi);
  EXPECT_EQ(openmpi->process, 3);
  EXPECT_EQ(openmpi->processes, 4);
  EXPECT_EQ(openmpi->name, "");
  EXPECT_EQ(openmpi->processes_here, 0) << "not said";
  const std::optional<MpiLaunch> mpich = launch_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->processes, 2);
  EXPECT_EQ(mpich->variables, "PMI_RANK and PMI_SIZE");
  const std::optional<MpiLaunch> slurm = launch_with({{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "16"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->processes, 16);
}

TEST(MpiLaunchTest, ALauncherNamesItsLaunchAndCountsTheProcessesOfAHost) {
  const std::optional<MpiLaunch> openmpi = launch_with({{"OMPI_COMM_WORLD_RANK", "3"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                        {"PMIX_NAMESPACE", "1114963969"}});
  ASSERT_TRUE(openmpi);
  EXPECT_EQ(openmpi->name, "1114963969");
  EXPECT_EQ(openmpi->processes_here, 2);
}

TEST(MpiLaunchTest, AProcessThatIsAloneNeedsNoMpi) {
  EXPECT_FALSE(launch_with({}));
  EXPECT_FALSE(launch_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})) << "a batch script, not one of its tasks";
  EXPECT_FALSE(launch_with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
}

TEST(MpiLaunchTest, WhatALauncherLeftBehindIsRefused) {
  for (const Variables& stale :
       {Variables{{"PMI_RANK", "7"}, {"PMI_SIZE", "4"}}, Variables{{"PMI_RANK", "x"}, {"PMI_SIZE", "4"}},
        Variables{{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}}) {
    const base::Problem problem = testing_support::problem_of(base::Code::E3104, [&] { launch_with(stale); });
    EXPECT_NE(problem.got.find("PMI_RANK="), std::string::npos) << problem.got;
  }
}

}  // namespace
}  // namespace megacpp::collectives
