// SPDX-License-Identifier: Apache-2.0
// What the library that stands in for NCCL shows to tests. It moves nothing.
#pragma once

namespace megacpp::stand_in_nccl {

struct State {
  int version = 22809;
  int result = 0;  // of every call that may fail
};

/// Exported as megacpp_stand_in_nccl.
using GetState = State*();

}  // namespace megacpp::stand_in_nccl
