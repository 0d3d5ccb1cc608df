// SPDX-License-Identifier: Apache-2.0
// What a step that XLA compiles takes of a chip, by kind of chip: on TPUs by a rule where it holds (tpu_rule.h), else
// from the least to the most that its file says of any step there (hw::CompiledByXla), over what is planned.
#pragma once

#include <cstdint>
#include <optional>

#include "megacpp/hardware/fit/reservation.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::runtime::xla {

std::optional<fit::Reservation> reserve(const fit::StepProgram& step, const hw::Chip& device);

/// Of a GPU's memory what a client is told to take as its pool, out of which it serves programs, where so many
/// processes use that GPU. The rest is for the driver's context, code, and what libraries allocate by themselves; not
/// told, a client takes three quarters. All of other chips.
double pool_share(const hw::Chip& chip, int64_t sharers);
constexpr double gpu_pool_share(int64_t sharers) { return 0.9 / static_cast<double>(sharers); }

/// Of dropless experts XLA gets a product for each with a masked copy of all rows, which no plan and no rule has.
bool has_dropless_experts(const recipe::Model& model);

/// The recipe with what it leaves to the hardware: on GPUs the plugin, by which blocks are in loops or not.
recipe::Recipe settled_on(const hw::Chip& chip, recipe::Recipe recipe);

}  // namespace megacpp::runtime::xla
