// SPDX-License-Identifier: Apache-2.0
// Tests that derive from GpuTest run the CUDA backend on a GPU of this machine. They are skipped, and say why, where
// there is none that serves.
#pragma once

#include <gtest/gtest.h>

#include "megacpp/machine/backends/backend_table.h"

namespace megacpp::testing_support {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const base::Decision usable = runtime::backend_named("cuda").usable({});
    if (!usable) GTEST_SKIP() << usable.reason();
  }
};

}  // namespace megacpp::testing_support
