// SPDX-License-Identifier: Apache-2.0
// AdamW for optimizers that update some parameters by it.
#pragma once

#include <string_view>
#include <vector>

#include "megacpp/program/optim/optimizer_def.h"

namespace megacpp::optim {

/// Both moments, of parameters for which `applies` holds; null: all.
std::vector<StateDef> adamw_state(bool (*applies)(const blocks::Parameter& parameter));
/// Keys of the recipe that it reads.
std::vector<std::string_view> adamw_keys();
/// Bias corrections of both moments, for OptimizerDef::shared.
std::vector<ir::ValueId> adamw_shared(ops::Builder& builder, const Optimizer& settings, ir::ValueId step);
Direction adamw_direction(const DirectionInputs& inputs);

}  // namespace megacpp::optim
