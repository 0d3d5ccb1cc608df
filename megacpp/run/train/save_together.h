// SPDX-License-Identifier: Apache-2.0
// One checkpoint of a run over several processes: each writes the shards of its own chips, the coordinator the manifest
// when all have. It is complete or not there at all, and every process learns which. The folder must be one that all
// processes share.
#pragma once

#include <span>

#include "megacpp/machine/collectives/world.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/checkpoint/store.h"
#include "megacpp/run/checkpoint/writer.h"

namespace megacpp::train {

/// Called by all processes. Returns the manifest on the coordinator, the header elsewhere. E3001 on all where one could
/// not write, which it names; E3101 or E3102 where one is gone or does not come, and `processes` is over then.
checkpoint::Manifest save_together(collectives::World& processes, const checkpoint::Store& store,
                                   checkpoint::Manifest header, std::span<const checkpoint::PieceBytes> pieces);

}  // namespace megacpp::train
