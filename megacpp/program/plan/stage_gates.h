// SPDX-License-Identifier: Apache-2.0
// The gates of a pipeline: a backend that has one, chunks and schedules that agree, a block for every chunk, cuts that
// make as many parts.
#pragma once

#include <array>

#include "megacpp/program/plan/next_step.h"

namespace megacpp::plan {

/// Later ones rely on earlier ones.
const std::array<Gate, 5>& stage_gates();

}  // namespace megacpp::plan
