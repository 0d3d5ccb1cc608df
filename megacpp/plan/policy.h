// SPDX-License-Identifier: Apache-2.0
// Policies over the same passes. Everything a policy decides is decided here; no later stage asks for its name.
#pragma once

#include <cstdint>

#include "megacpp/recipe/recipe.h"

namespace megacpp::plan {

/// What is gathered by one collective where a weight is stored split.
enum class GatherUnit : uint8_t {
  parameter,  // each by itself, where it is used
  block,      // all of a block, ahead of it
  bucket,     // never inside the model: only updated weights, by bucket
};

/// Fills in what `layout` leaves to its policy (zero) and says how weights are gathered.
///   spmd      keys as given, zero 1 unless given
///   fsdp      zero 3 unless given, one gather per block
///   megatron  zero 1 unless given: a distributed optimizer over buckets; weights stay whole in the model
GatherUnit apply_policy(recipe::Layout& layout);

}  // namespace megacpp::plan
