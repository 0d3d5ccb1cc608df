// SPDX-License-Identifier: Apache-2.0
// The state of a checkpoint, or its weights alone, onto the chips of a run, whatever the layout it was saved from.
// Pieces go to chips by what their rectangles share: one tensor at a time is in memory, as the local chips hold it, and
// no byte of a file is read more than twice, once for its checksum and once to be copied.
#pragma once

#include <cstdint>

#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/name_map.h"
#include "megacpp/run/checkpoint/reader.h"

namespace megacpp::train {

/// E1205 where the checkpoint is of a model or an optimizer that is not the recipe's.
void require_same_model(const checkpoint::Manifest& manifest, const recipe::Recipe& recipe);

/// Every kept tensor of the local chips. E1205 where the run has other tensors than the checkpoint, E1204 where a file
/// is damaged.
void load_state(const checkpoint::Reader& reader, const compile::Compiled& compiled, runtime::Executable& run);

/// What becomes of LoRA adapters that the run has and the given weights have not.
enum class AbsentAdapters : uint8_t {
  refused,  // as any other weight that is missing
  left,     // as they are: the weights are those of their base
};

/// The weights of the local chips alone: a run that starts with them has the optimizer state of any new run. Errors as
/// load_state().
void load_weights(const checkpoint::Reader& reader, const compile::Compiled& compiled, runtime::Executable& run,
                  AbsentAdapters absent = AbsentAdapters::refused);
/// The same of whole tensors in memory. E1203 for one that is missing or of another size.
void load_weights(const checkpoint::TensorMap& weights, const compile::Compiled& compiled, runtime::Executable& run,
                  AbsentAdapters absent = AbsentAdapters::refused);

}  // namespace megacpp::train
