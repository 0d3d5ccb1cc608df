// SPDX-License-Identifier: Apache-2.0
// Settings of block families that no block of the model reads: of families it does not have, and those that every
// letter of a family gives itself.
#pragma once

#include <vector>

#include "megacpp/program/recipe/ignored_keys.h"

namespace megacpp::recipe {

/// For a validated recipe. A level of train.recompute that all families share is one setting for the whole model, and
/// is not spoken of where some of them are absent.
const std::vector<IgnoredKey>& unused_model_keys();

}  // namespace megacpp::recipe
