// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/confirm_start.h"

#include <algorithm>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/program/optim/optimizer_def.h"

namespace megacpp::train {
namespace {

// One state tensor as the plan wants it.
struct Wanted {
  std::string name;
  ir::TensorType type;  // whole
  ir::Sharding sharding;
};

std::vector<Wanted> state_of(const blocks::Parameter& parameter, const plan::ParameterSpec& spec) {
  std::vector<Wanted> state = {{parameter.name, {ir::DType::f32, parameter.shape}, spec.stored}};
  for (const optim::StateTensor& tensor : spec.state) state.push_back({tensor.name, tensor.type, tensor.sharding});
  return state;
}

bool is_somewhere(const blocks::Parameter& parameter, const compile::Compiled& compiled) {
  return std::any_of(compiled.stages.begin(), compiled.stages.end(),
                     [&](const compile::StagePrograms& stage) { return stage.find_state(parameter.name) != nullptr; });
}

void confirm_placement(const Wanted& wanted, const compile::StagePrograms& programs, const ir::Mesh& mesh) {
  const compile::StateTensor* const state = programs.find_state(wanted.name);
  MEGACPP_CHECK(state != nullptr) << "no program has the planned state " << wanted.name;
  MEGACPP_CHECK(state->whole == wanted.type)
      << wanted.name << " is " << ir::to_string(state->whole) << ", planned was " << ir::to_string(wanted.type);
  MEGACPP_CHECK(state->sharding == wanted.sharding)
      << wanted.name << " is sharded as " << ir::to_string(state->sharding, mesh) << ", planned was "
      << ir::to_string(wanted.sharding, mesh);
}

void confirm_bytes(const Wanted& wanted, int64_t chip, const ir::Mesh& mesh, const runtime::Executable& run) {
  const ir::TensorType part{wanted.type.dtype, ir::local_shape(wanted.type.shape, wanted.sharding, mesh)};
  const auto held = run.state_bytes(wanted.name, chip);
  MEGACPP_CHECK(held.has_value()) << ir::chip_name(chip, mesh) << " has no " << wanted.name;
  MEGACPP_CHECK(*held == part.bytes()) << ir::chip_name(chip, mesh) << " holds " << *held << " bytes of " << wanted.name
                                       << ", planned was " << ir::to_string(part) << ", " << part.bytes();
}

}  // namespace

void confirm_start(const plan::Plan& plan, const compile::Compiled& compiled, const runtime::Executable& run) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  MEGACPP_CHECK(compiled.mesh == mesh) << "compiled for the mesh " << ir::to_string(compiled.mesh) << ", planned was "
                                       << ir::to_string(mesh);
  MEGACPP_CHECK(run.chips() == plan.chips) << "loaded on " << run.chips() << " chips, planned were " << plan.chips;
  for (const blocks::Parameter& parameter : compiled.parameters)
    MEGACPP_CHECK(is_somewhere(parameter, compiled)) << "no chip has the parameter " << parameter.name;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    for (const blocks::Parameter& parameter : compiled.parameters_of(stage)) {
      const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
      for (const Wanted& wanted : state_of(parameter, spec)) {
        confirm_placement(wanted, compiled.stages[stage], mesh);
        for (const int64_t chip : run.local_chips())
          if (compiled.stage_of(chip) == stage) confirm_bytes(wanted, chip, mesh, run);
      }
    }
}

}  // namespace megacpp::train
