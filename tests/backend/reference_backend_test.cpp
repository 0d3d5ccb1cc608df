// SPDX-License-Identifier: Apache-2.0
#include "tests/backend/reference_backend.h"

#include <gtest/gtest.h>

#include "megacpp/machine/backends/backend_table.h"
#include "tests/backend/executable_contract.h"

namespace megacpp::testing_support {
namespace {

TEST(ReferenceBackendTest, TrainsAsTheCpuBackendThroughItsRecordAlone) {
  const std::vector<train::StepReport> got = ContractRun(small_recipe(), reference_backend()).train();
  const std::vector<train::StepReport> wanted = ContractRun(small_recipe(), runtime::backend_named("cpu")).train();
  ASSERT_EQ(got.size(), 3U);
  ASSERT_EQ(wanted.size(), 3U);
  for (size_t step = 0; step < 3; ++step) {
    const double loss = wanted[step].loss.value(), norm = wanted[step].grad_norm.value();
    EXPECT_NEAR(got[step].loss.value(), loss, 1e-5 * loss) << "step " << step;
    EXPECT_NEAR(got[step].grad_norm.value(), norm, 1e-4 * norm) << "step " << step;
  }
  EXPECT_LT(wanted[2].loss, wanted[0].loss);
}

TEST(ReferenceBackendTest, KeepsTheContract) {
  expect_state_contract(small_recipe(), reference_backend());
  expect_step_contract(small_recipe(), reference_backend());
}

}  // namespace
}  // namespace megacpp::testing_support
