// SPDX-License-Identifier: Apache-2.0
// A plan as text, for explanations and tests.
#pragma once

#include <string>

#include "megacpp/program/plan/plan.h"

namespace megacpp::plan {

/// One line per dimension that is split: "KV heads: model.0". Then how sequences and blocks are cut.
std::string axes_text(const Plan& plan);

/// The degrees above 1 and the level of ZeRO: "policy spmd, data 2, tensor 4 with sequence, zero 1".
std::string layout_line(const Plan& plan);

}  // namespace megacpp::plan
