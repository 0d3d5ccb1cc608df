// SPDX-License-Identifier: Apache-2.0
// The record of the backend `xla`: a recipe's xla section turned into a plugin, its flags and its cache. In a build
// without the header of the PJRT C API the record is there and refuses with E1505.
#pragma once

#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/runtime/plugins/flags.h"

namespace megacpp::runtime {

Backend xla_backend();

/// The flags that a recipe gives to XLA, checked: E1507.
plugins::ResolvedFlags xla_flags(const RunRequest& request);

}  // namespace megacpp::runtime
