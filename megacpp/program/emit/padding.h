// SPDX-License-Identifier: Apache-2.0
// XLA wants the same shape of a tensor from every device, at the border of a module: where a size does not divide,
// chips hold padding, as ir::local_size says. Axes split in turn, so padding stands at the end of each axis's share and
// not only at the end of the whole.
#pragma once

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/ops/hlo_writer.h"

namespace megacpp::emit {

/// The parts of all chips, one after the other.
ir::Shape padded_shape(const ir::Shape& shape, const ir::Sharding& sharding, const ir::Mesh& mesh);

/// From padded_shape(shape) to shape; nothing is written where sizes divide.
ops::HloValue without_padding(ops::HloWriter& writer, ops::HloValue value, const ir::Shape& shape,
                              const ir::Sharding& sharding);
/// The opposite; padding is zeros.
ops::HloValue with_padding(ops::HloWriter& writer, ops::HloValue value, const ir::Sharding& sharding);

}  // namespace megacpp::emit
