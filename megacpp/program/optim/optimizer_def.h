// SPDX-License-Identifier: Apache-2.0
// What an optimizer is: one record each, in a file of its own, listed in optimizer_list.inc. It says which tensors the
// optimizer keeps for a parameter and builds the direction a parameter moves against; all else of an update is common
// (update.h). Plans, bytes, the confirmation before step 0 and reports derive an optimizer's state from its record.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/optim/optimizer.h"

namespace megacpp::ops {
class Builder;
}

namespace megacpp::optim {

/// One tensor that an optimizer keeps for every trainable parameter, or for some of them. It starts as zeros.
struct StateDef {
  std::string_view prefix;  // "adam_m.": its name is the prefix and the parameter's
  std::string_view doc;
  ir::Role role = ir::Role::optimizer;
  ir::DType dtype = ir::DType::f32;
  /// Which trainable parameters have it; null: all.
  bool (*applies)(const blocks::Parameter& parameter) = nullptr;
  /// Its shape; null: the parameter's.
  ir::Shape (*shape)(const blocks::Parameter& parameter) = nullptr;
  /// Its sharding, where the update sees the parameter's gradient as `update` says; null: the same. Needed where the
  /// rank is another.
  ir::Sharding (*sharding)(const blocks::Parameter& parameter, const ir::Sharding& update) = nullptr;
};

/// A StateDef for one parameter.
struct StateTensor {
  std::string name;  // "adam_m.block03.M.out_proj"
  ir::Role role = ir::Role::optimizer;
  ir::TensorType type;  // whole
  ir::Sharding sharding;
};

/// What the direction of one parameter is built from.
struct DirectionInputs {
  ops::Builder& builder;
  const Optimizer& settings;
  const blocks::Parameter& parameter;
  ir::ValueId weight;               // f32, before the step
  ir::ValueId gradient;             // f32, clipped; sharded as `sharding`
  std::vector<ir::ValueId> state;   // as state_of lists them
  std::vector<ir::ValueId> shared;  // what OptimizerDef::shared built
  std::string sharding;             // text; empty on one chip
};

/// The weight moves by -lr * (value + weight decay).
struct Direction {
  ir::ValueId value;               // of the parameter's shape; f32, or what MatrixMap takes
  std::vector<ir::ValueId> state;  // new values, in the order of DirectionInputs::state
};

/// Matrices of one or several parameters, [.., in, out], every one of them whole on the chip that has it.
struct MatrixInputs {
  ops::Builder& builder;
  const Optimizer& settings;
  ir::ValueId value;
};

/// What an optimizer does to directions matrix by matrix, before weights move along them.
struct MatrixMap {
  std::string_view name;  // "Newton-Schulz", in the cause of what must travel for it
  /// Parameters whose direction it maps.
  bool (*applies)(const blocks::Parameter& parameter) = nullptr;
  /// The same type as its operand.
  ir::ValueId (*map)(const MatrixInputs& inputs) = nullptr;
};

struct OptimizerDef {
  std::string_view name;   // as optimizer.name has it
  std::string_view title;  // as reports have it: "AdamW"
  std::string_view doc;    // the formula, and what it costs
  std::vector<StateDef> state;
  /// The recipe's keys that this optimizer reads and others may not.
  std::vector<std::string_view> keys;
  /// Scalars that are the same for all parameters, built once a step (`step` is f32, from 1); null: none.
  std::vector<ir::ValueId> (*shared)(ops::Builder& builder, const Optimizer& settings, ir::ValueId step) = nullptr;
  Direction (*direction)(const DirectionInputs& inputs) = nullptr;
  std::optional<MatrixMap> matrices = std::nullopt;
  /// What this parameter is updated by, as reports have it; null: the title for all.
  std::string_view (*method)(const blocks::Parameter& parameter) = nullptr;
};

std::span<const OptimizerDef> all_optimizers();
/// E1003 for a name that no record has, with those there are.
const OptimizerDef& optimizer_def(std::string_view name);

std::string_view method_of(const OptimizerDef& optimizer, const blocks::Parameter& parameter);

/// Whether the direction of this parameter is mapped matrix by matrix.
bool maps_matrices(const OptimizerDef& optimizer, const blocks::Parameter& parameter);

/// How such a direction is sharded while it is mapped, where the update sees the gradient as `update` says: matrices
/// are whole, dimensions that count them stay split. For other parameters `update`.
ir::Sharding matrix_sharding(const OptimizerDef& optimizer, const blocks::Parameter& parameter,
                             const ir::Sharding& update);

std::vector<std::string> optimizer_names();

/// The state of one parameter, in the order of the record; none where nothing trains it. `update` is how the update
/// sees its gradient.
std::vector<StateTensor> state_of(const OptimizerDef& optimizer, const blocks::Parameter& parameter,
                                  const ir::Sharding& update);

}  // namespace megacpp::optim
