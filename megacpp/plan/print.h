// SPDX-License-Identifier: Apache-2.0
// A plan and its specs as text, for dumps, explanations and tests.
#pragma once

#include <string>

#include "megacpp/blocks/parameter.h"
#include "megacpp/plan/plan.h"

namespace megacpp::plan {

/// The mesh, then one line per dimension that is split: "KV heads: model.0".
std::string to_text(const Plan& plan);

/// The degrees above 1 and the level of ZeRO: "lane spmd, data 2, tensor 4 with sequence, zero 1".
std::string layout_line(const Plan& plan);

/// Each part that differs from the one in products, local shape first:
/// "block00.A.wq 448x3584 computed -,model; gradient -,model ~ data; optimizer data,model".
std::string to_text(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec);

}  // namespace megacpp::plan
