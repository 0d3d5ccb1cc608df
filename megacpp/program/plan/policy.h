// SPDX-License-Identifier: Apache-2.0
// Policies over the same passes. Everything a policy decides is decided here; no later stage asks for its name.
#pragma once

#include <cstdint>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

/// What is gathered by one collective where a weight is stored split.
enum class GatherUnit : uint8_t {
  parameter,  // each by itself, where it is used
  block,      // all of a block, ahead of it
  bucket,     // never inside the model: only updated weights, by bucket
};

/// spmd      keys as given
/// fsdp      one gather per block
/// megatron  a distributed optimizer over buckets; weights stay whole in the model
GatherUnit gather_unit(recipe::Policy policy);

/// 0 to 3: as the layout gives it, or as its policy has it: 3 with fsdp, otherwise 1.
int64_t zero_level(const recipe::Layout& layout);

}  // namespace megacpp::plan
