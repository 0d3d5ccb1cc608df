// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/compiled.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "megacpp/core/base/error.h"

namespace megacpp::compile {

std::string_view kind_name(ProgramKind kind) {
  constexpr std::array<std::string_view, 13> kNames = {
      "micro_step",      "gradients",           "forward",          "backward",           "backward_input",
      "backward_weight", "receive_activations", "send_activations", "receive_cotangents", "send_cotangents",
      "update",          "convert_weights",     "inference"};
  return kNames[static_cast<size_t>(kind)];
}

bool StagePrograms::has(ProgramKind kind) const {
  return std::ranges::any_of(programs, [kind](const Program& program) { return program.kind == kind; });
}

size_t StagePrograms::index_of(ProgramKind kind) const {
  const auto at = std::ranges::find(programs, kind, &Program::kind);
  MEGACPP_CHECK(at != programs.end()) << "the step has no program of kind " << kind_name(kind);
  return static_cast<size_t>(at - programs.begin());
}

const StateTensor* StagePrograms::find_state(const std::string& name) const {
  const auto at = std::ranges::lower_bound(state, name, {}, &StateTensor::name);
  return at == state.end() || at->name != name ? nullptr : &*at;
}

partition::Placements StagePrograms::placements() const {
  partition::Placements placements;
  for (const StateTensor& tensor : state) placements[tensor.name] = {tensor.whole, tensor.sharding};
  return placements;
}

double Compiled::compile_seconds() const {
  double seconds = 0;
  for (const PassTime& pass : passes) seconds += pass.seconds;
  return seconds;
}

double Compiled::verify_seconds() const {
  double seconds = 0;
  for (const PassTime& pass : passes) seconds += pass.verify_seconds;
  return seconds;
}

size_t Compiled::stage_of(int64_t chip) const {
  return stages.size() == 1 ? 0 : static_cast<size_t>(mesh.coordinate(chip, mesh.axis("stage")));
}

std::vector<blocks::Parameter> Compiled::parameters_of(size_t stage) const {
  std::vector<blocks::Parameter> own;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(own),
               [&](const blocks::Parameter& parameter) { return stages[stage].find_state(parameter.name) != nullptr; });
  return own;
}

int64_t Compiled::reporting_chip() const {
  int64_t chip = 0;
  while (stage_of(chip) + 1 < stages.size()) ++chip;
  return chip;
}

const StagePrograms& Compiled::largest() const {
  return *std::max_element(stages.begin(), stages.end(), [](const StagePrograms& a, const StagePrograms& b) {
    return a.memory.total_bytes < b.memory.total_bytes;
  });
}

double Compiled::flops_per_step() const {
  double flops = 0;
  for (const StagePrograms& chip : stages) flops += chip.flops;
  return flops * static_cast<double>(mesh.chips()) / static_cast<double>(stages.size());
}

}  // namespace megacpp::compile
