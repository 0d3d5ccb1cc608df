// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/parameter_table.h"

#include <algorithm>

#include "megacpp/ir/fold_blocks.h"

namespace megacpp::plan {
namespace {

using blocks::Parameter;

constexpr int64_t kElementBytes = 4;  // state is f32

int64_t local_bytes(const Parameter& parameter, const ir::Sharding& sharding, const ir::Mesh& mesh) {
  return kElementBytes * ir::num_elements(ir::local_shape(parameter.shape, sharding, mesh));
}

ParameterRow row_of(const Plan& plan, const Parameter& parameter) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const ParameterSpec spec = spec_of(plan, parameter);
  return {.name = ir::fold_blocks(parameter.name),
          .count = 1,
          .shape = parameter.shape,
          .local = ir::local_shape(parameter.shape, spec.computed, mesh),
          .replicated = spec.stored.is_replicated(),
          .stored = to_string(spec.stored, mesh),
          .computed = to_string(spec.computed, mesh),
          .gradient = parameter.trainable ? to_string(spec.gradient, mesh) : "",
          .optimizer = parameter.trainable ? to_string(spec.optimizer, mesh) : "",
          .stored_bytes = local_bytes(parameter, spec.stored, mesh),
          .why = spec.why};
}

// Equal names with another shape or spec stay apart: blocks of one family may differ.
bool folds(const ParameterRow& a, const ParameterRow& b) {
  return a.name == b.name && a.shape == b.shape && a.stored == b.stored && a.computed == b.computed &&
         a.gradient == b.gradient && a.optimizer == b.optimizer;
}

}  // namespace

std::vector<ParameterRow> parameter_table(const Plan& plan, std::span<const Parameter> parameters) {
  std::vector<ParameterRow> rows;
  for (const Parameter& parameter : parameters) {
    ParameterRow row = row_of(plan, parameter);
    const auto same =
        std::find_if(rows.begin(), rows.end(), [&row](const ParameterRow& other) { return folds(row, other); });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
    } else {
      ++same->count;
      same->stored_bytes += row.stored_bytes;
    }
  }
  return rows;
}

StateBytes state_bytes(const Plan& plan, std::span<const Parameter> parameters) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  StateBytes bytes;
  for (const Parameter& parameter : parameters) {
    const ParameterSpec spec = spec_of(plan, parameter);
    const int64_t stored = local_bytes(parameter, spec.stored, mesh);
    bytes.weights += stored;
    if (spec.stored.is_replicated()) bytes.replicated += stored;
    if (!parameter.trainable) continue;
    if (spec.kept != spec.stored) bytes.kept += local_bytes(parameter, spec.kept, mesh);
    bytes.gradients += local_bytes(parameter, spec.gradient, mesh);
    bytes.optimizer += 2 * local_bytes(parameter, spec.optimizer, mesh);
  }
  return bytes;
}

}  // namespace megacpp::plan
