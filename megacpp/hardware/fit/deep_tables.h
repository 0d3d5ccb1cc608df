// SPDX-License-Identifier: Apache-2.0
// Tables of a deep model's plan from those of shallow plans (shallow_plans.h): parameters, state and collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/hardware/fit/shallow_plans.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/compile/collective_report.h"
#include "megacpp/program/plan/parameter_table.h"

namespace megacpp::fit {

/// Elements of all parameters.
int64_t deep_parameters(const ShallowPlans& shallow);

/// Rows of blocks that are alike count those of the model.
std::vector<plan::ParameterRow> deep_parameter_table(const ShallowPlans& shallow);

/// On a chip of the stage.
plan::StateBytes deep_state_bytes(const ShallowPlans& shallow, size_t stage);
/// Of weights in the type that products read, beside the stored ones.
int64_t deep_weight_copy_bytes(const ShallowPlans& shallow, size_t stage);

/// Of the stage's programs on the device.
ArgumentBytes deep_argument_bytes(const ShallowPlans& shallow, size_t stage, const hw::Chip& device);

/// Calls that are alike but for their bytes, as buckets are that end at a number of bytes, are one row where these
/// differ between depths: with the mean of their bytes.
std::vector<compile::CollectiveRow> deep_collectives(const ShallowPlans& shallow);

}  // namespace megacpp::fit
