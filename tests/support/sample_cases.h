// SPDX-License-Identifier: Apache-2.0
// Names of tests that run once for every sample of every op.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>

namespace megacpp::testing_support {

/// "op_sample_17" for a case with the fields `op` and `sample`; gtest takes letters, digits and underscores only.
template <typename Case>
std::string sample_case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.op->name + "_" + info.param.sample.name + "_" + std::to_string(info.index);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

}  // namespace megacpp::testing_support
