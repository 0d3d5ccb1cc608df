// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/optim/optimizer_def.h"

#include <algorithm>

#include "megacpp/core/base/error.h"

namespace megacpp::optim {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

const OptimizerDef& optimizer_def(std::string_view name) {
  const std::span<const OptimizerDef> all = all_optimizers();
  const auto at = std::ranges::find(all, name, &OptimizerDef::name);
  MEGACPP_REQUIRE(at != all.end(), E1003,
                  {.where = "optimizer.name",
                   .got = "'" + std::string(name) + "'",
                   .wanted = "one of " + joined(optimizer_names()),
                   .next = "take one of these"});
  return *at;
}

std::string_view method_of(const OptimizerDef& optimizer, const blocks::Parameter& parameter) {
  return optimizer.method == nullptr ? optimizer.title : optimizer.method(parameter);
}

bool maps_matrices(const OptimizerDef& optimizer, const blocks::Parameter& parameter) {
  return optimizer.matrices && parameter.trainable && optimizer.matrices->applies(parameter);
}

ir::Sharding matrix_sharding(const OptimizerDef& optimizer, const blocks::Parameter& parameter,
                             const ir::Sharding& update) {
  ir::Sharding sharding = update;
  if (!maps_matrices(optimizer, parameter)) return sharding;
  MEGACPP_CHECK(sharding.dims.size() >= 2) << parameter.name << " is no matrix";
  for (size_t d = sharding.dims.size() - 2; d < sharding.dims.size(); ++d) sharding.dims[d].clear();
  return sharding;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerDef& optimizer : all_optimizers()) names.emplace_back(optimizer.name);
  return names;
}

std::vector<StateTensor> state_of(const OptimizerDef& optimizer, const blocks::Parameter& parameter,
                                  const ir::Sharding& update) {
  std::vector<StateTensor> tensors;
  if (!parameter.trainable) return tensors;
  for (const StateDef& state : optimizer.state) {
    if (state.applies != nullptr && !state.applies(parameter)) continue;
    StateTensor tensor{.name = std::string(state.prefix) + parameter.name,
                       .role = state.role,
                       .type = {state.dtype, state.shape == nullptr ? parameter.shape : state.shape(parameter)},
                       .sharding = state.sharding == nullptr ? update : state.sharding(parameter, update)};
    MEGACPP_CHECK(tensor.sharding.dims.size() == tensor.type.shape.size())
        << tensor.name << " has " << tensor.type.shape.size() << " dimensions and a sharding of "
        << tensor.sharding.dims.size();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace megacpp::optim
