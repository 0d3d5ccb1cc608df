// SPDX-License-Identifier: Apache-2.0
// The record of the backend `xla`: a recipe's xla section turned into a plugin, its flags and its cache. In a build
// without the header of the PJRT C API the record is there and refuses with E1505.
#pragma once

#include "megacpp/machine/plugins/flags.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::runtime {

Backend xla_backend();

/// The flags that a recipe gives to XLA, checked: E1507.
plugins::ResolvedFlags xla_flags(const recipe::RunRequest& request);

}  // namespace megacpp::runtime
