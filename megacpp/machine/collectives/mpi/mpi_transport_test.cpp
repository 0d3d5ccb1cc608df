// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/mpi/mpi_transport.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"

namespace megacpp::collectives {
namespace {

// Before any MPI is looked for, and so alike on every process.
TEST(MpiTransportTest, ChipsThatDoNotDivideOverProcessesAreRefused) {
  const testing_support::Variable process("PMI_RANK", "1"), processes("PMI_SIZE", "2");
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1007, [] { transport_of_launch().make({.chips = 3}); });
  EXPECT_EQ(problem.where, "mpiexec of MPICH");
  EXPECT_EQ(problem.got, "2 processes for 3 chips");
}

TEST(MpiTransportTest, AProcessAloneHasTheTransportOfOne) {
  EXPECT_EQ(transport_of_launch().properties.name, "inproc");
}

}  // namespace
}  // namespace megacpp::collectives
