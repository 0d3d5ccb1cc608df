// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/parameter_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "megacpp/core/ir/fold_blocks.h"

namespace megacpp::plan {
namespace {

using blocks::Parameter;

constexpr int64_t kElementBytes = 4;  // weights and gradients are f32

int64_t local_bytes(const Parameter& parameter, const ir::Sharding& sharding, const ir::Mesh& mesh) {
  return kElementBytes * ir::num_elements(ir::local_shape(parameter.shape, sharding, mesh));
}

/// The shardings of the optimizer's state, each once.
std::string state_text(const ParameterSpec& spec, const ir::Mesh& mesh) {
  std::vector<std::string> texts;
  for (const optim::StateTensor& tensor : spec.state)
    if (std::string text = to_string(tensor.sharding, mesh); std::ranges::find(texts, text) == texts.end())
      texts.push_back(std::move(text));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// Chips of one stage that store the same.
int64_t holders_in_stage(const Plan& plan, const ir::Sharding& stored) {
  int64_t parts = 1;
  for (const ir::Axes& axes : stored.dims) parts *= plan.parallel.mesh.size(axes);
  return plan.chips / plan.stages / parts;
}

ParameterRow row_of(const Plan& plan, const Parameter& parameter, int64_t stage) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const ParameterSpec spec = spec_of(plan, parameter);
  return {.stage = stage,
          .name = ir::fold_blocks(parameter.name),
          .count = 1,
          .shape = parameter.shape,
          .local = ir::local_shape(parameter.shape, spec.computed, mesh),
          .holders = holders_in_stage(plan, spec.stored),
          .whole = spec.stored.is_replicated(),
          .stored = to_string(spec.stored, mesh),
          .computed = to_string(spec.computed, mesh),
          .gradient = parameter.trainable ? to_string(spec.gradient, mesh) : "",
          .optimizer = state_text(spec, mesh),
          .group = spec.group,
          .stored_bytes = local_bytes(parameter, spec.stored, mesh),
          .why = spec.why};
}

// Equal names with another shape or spec stay apart: blocks of one family may differ.
bool folds(const ParameterRow& a, const ParameterRow& b) {
  return a.stage == b.stage && a.name == b.name && a.shape == b.shape && a.holders == b.holders &&
         a.stored == b.stored && a.computed == b.computed && a.gradient == b.gradient && a.optimizer == b.optimizer &&
         a.group == b.group;
}

}  // namespace

std::vector<ParameterRow> parameter_table(const Plan& plan, std::span<const std::vector<Parameter>> stages) {
  std::map<std::string, int64_t> stages_with;  // a tied weight stands in two
  for (const std::vector<Parameter>& parameters : stages)
    for (const Parameter& parameter : parameters) ++stages_with[parameter.name];
  std::vector<ParameterRow> rows;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (const Parameter& parameter : stages[stage]) {
      ParameterRow row = row_of(plan, parameter, static_cast<int64_t>(stage));
      row.holders *= stages_with[parameter.name];
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
    bytes.weights += local_bytes(parameter, spec.stored, mesh);
    if (spec.kept != spec.stored) bytes.kept += local_bytes(parameter, spec.kept, mesh);
    if (!parameter.trainable) continue;
    bytes.gradients += local_bytes(parameter, spec.gradient, mesh);
    for (const optim::StateTensor& tensor : spec.state)
      bytes.optimizer +=
          ir::TensorType{tensor.type.dtype, ir::local_shape(tensor.type.shape, tensor.sharding, mesh)}.bytes();
  }
  return bytes;
}

}  // namespace megacpp::plan
