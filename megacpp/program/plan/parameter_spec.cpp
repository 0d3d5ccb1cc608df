// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/optim/parameter_groups.h"
#include "megacpp/program/plan/dim_names.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/plan/spec_gates.h"

namespace megacpp::plan {
namespace {

using blocks::Parameter;
using ir::Axes;
using ir::Sharding;

/// The dimension ZeRO splits: the first that divides, else the largest, which is padded.
size_t split_dim(const ir::Shape& local, int64_t parts) {
  for (size_t d = 0; d < local.size(); ++d)
    if (local[d] % parts == 0) return d;
  return static_cast<size_t>(std::max_element(local.begin(), local.end()) - local.begin());
}

Sharding with_axes(Sharding sharding, size_t dim, const Axes& axes) {
  sharding.dims[dim].insert(sharding.dims[dim].end(), axes.begin(), axes.end());
  return sharding;
}

Axes common(const Axes& axes, const Axes& allowed) {
  Axes both;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(both), [&allowed](ir::AxisId axis) {
    return std::find(allowed.begin(), allowed.end(), axis) != allowed.end();
  });
  return both;
}

/// Those over which a weight stays split come first: it is gathered over the others alone, and gradients of all are
/// scattered at once.
Axes kept_first(Axes axes, const Axes& kept) {
  std::stable_partition(axes.begin(), axes.end(),
                        [&kept](ir::AxisId axis) { return std::find(kept.begin(), kept.end(), axis) != kept.end(); });
  return axes;
}

/// Whether products sum over the first dimension; rows of others are a channel's or head's own.
bool is_multiplied(blocks::ParameterKind kind) {
  using Kind = blocks::ParameterKind;
  return kind == Kind::matrix || kind == Kind::embedding || kind == Kind::head;
}

std::string split_text(const Plan& plan, const Parameter& parameter) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  std::string text;
  for (size_t d = 0; d < parameter.dims.size(); ++d) {
    const Axes& axes = plan.parallel.axes_of(parameter.dims[d], parameter.letter);
    if (axes.empty()) continue;
    const bool is_matrix = parameter.dims.size() == 2 && is_multiplied(parameter.kind);
    const char* how = !is_matrix ? "split" : d == 0 ? "row-parallel" : "column-parallel";
    text += fmt::format("{}{} over {}: {}", text.empty() ? "" : ", ", how, to_string(axes, mesh),
                        dim_name(parameter.dims[d]));
  }
  if (!text.empty()) return text;
  if (plan.chips == plan.stages) return "whole";
  return plan.stages > 1 ? "whole on every chip of its stage" : "whole on every chip";
}

/// Whether micro-steps leave every chip the sum of its own part: of all the optimizer will see.
bool scatters_gradients(const Plan& plan) {
  return plan.layout.zero() >= 2 || (plan.layout.zero() == 1 && !plan.gradients_wait);
}

/// What ZeRO splits of a parameter; empty: nothing.
std::string_view split_parts(const Plan& plan, const Parameter& parameter) {
  constexpr std::string_view kWhat[] = {"", "optimizer", "gradient and optimizer", "weight, gradient and optimizer"};
  const int64_t zero = plan.layout.zero();
  if (parameter.frozen) return zero >= 3 ? "weight" : "";
  return kWhat[zero == 1 && scatters_gradients(plan) ? 2 : zero];
}

std::string zero_text(const Plan& plan, const Parameter& parameter) {
  const Axes& axes = copies_of(plan, parameter);
  const ir::Mesh& mesh = plan.parallel.mesh;
  const int64_t zero = plan.layout.zero();
  if (axes.empty()) return "";
  const std::string_view parts = split_parts(plan, parameter);
  if (parts.empty()) return "";
  std::string text = fmt::format("; {} split over {} (zero {})", parts, to_string(axes, mesh), zero);
  const Axes kept = common(axes, plan.kept);
  if (zero == 3 && kept.empty()) text += ", whole from forward to backward";
  if (zero == 3 && !kept.empty() && kept != axes)
    text += fmt::format(", over {} from forward to backward", to_string(kept, mesh));
  return text;
}

ParameterSpec spread_alike(const Sharding& sharding, std::string why) {
  return {.stored = sharding,
          .kept = sharding,
          .computed = sharding,
          .gradient = sharding,
          .optimizer = sharding,
          .matrices = sharding,
          .state = {},
          .group = {},
          .why = std::move(why)};
}

/// `computed` split over these of the axes along which copies see different tokens.
Sharding split_copies(const Plan& plan, const Parameter& parameter, const Sharding& computed, const Axes& axes) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  const int64_t parts = mesh.size(copies_of(plan, parameter));
  return with_axes(computed, split_dim(local_shape(parameter.shape, computed, mesh), parts), axes);
}

}  // namespace

ParameterSpec spec_of(const Plan& plan, const Parameter& parameter) {
  MEGACPP_CHECK(!parameter.dims.empty() && parameter.dims.size() == parameter.shape.size())
      << parameter.name << " names " << parameter.dims.size() << " dimensions of " << parameter.shape.size();
  ParameterSpec spec =
      spread_alike(plan.parallel.sharding(parameter.dims, parameter.letter), split_text(plan, parameter));
  const Axes& copies = copies_of(plan, parameter);
  const Sharding split = split_copies(plan, parameter, spec.computed, kept_first(copies, plan.kept));
  if (plan.layout.zero() >= 3 && (parameter.trainable || parameter.frozen)) {
    spec.stored = split;
    spec.kept = split_copies(plan, parameter, spec.computed, common(copies, plan.kept));
  }
  if (!parameter.trainable) {
    spec.why += parameter.frozen ? "; frozen" + zero_text(plan, parameter) : "; no gradient";
    check_spec(plan, parameter, spec);
    return spec;
  }
  if (plan.layout.zero() >= 1) spec.optimizer = split;
  if (scatters_gradients(plan)) spec.gradient = split;
  if (plan.gradients_wait) spec.gradient.unreduced = copies;
  spec.why += zero_text(plan, parameter);
  const optim::OptimizerDef& optimizer = optim::optimizer_def(plan.optimizer.name);
  spec.state = optim::state_of(optimizer, parameter, spec.optimizer);
  spec.matrices = optim::matrix_sharding(optimizer, parameter, spec.optimizer);
  spec.group = optim::group_name(plan.optimizer, parameter);
  if (spec.matrices != spec.optimizer) spec.why += fmt::format("; whole matrices for {}", optimizer.matrices->name);
  check_spec(plan, parameter, spec);
  return spec;
}

}  // namespace megacpp::plan
