// SPDX-License-Identifier: Apache-2.0
// What runs a launch, as signatures tell it apart: this program by the content of its sources, a plugin by its name,
// version and content with the driver below it, and for virtual chips the processor and the threads that each gets.
// What another one learnt is shown as another's.
#pragma once

#include <string>

#include "megacpp/hardware/catalog/signature.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

/// "0.1.0+1f2e3d4c5b6a7988"
std::string code_version();

/// The plugin where the recipe's backend needs one: "plugin cpu 0.6.1 (build 77aa12), driver 550.54"; else empty. One
/// that is not here is said to be missing, since plans are made for machines that have it.
std::string platform_of(const recipe::Recipe& recipe);

/// Code version and platform: what all processes of a run must have in common.
catalog::Build program_of(const recipe::Recipe& recipe);

/// What runs the recipe on the chips of that slice: the program, and of this machine's chips their threads and
/// processor.
catalog::Build build_of(const recipe::Recipe& recipe, const hw::Slice& slice);

}  // namespace megacpp::launch
