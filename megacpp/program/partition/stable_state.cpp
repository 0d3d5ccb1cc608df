// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/stable_state.h"

#include <string>

#include "megacpp/core/base/error.h"

namespace megacpp::partition {
namespace {

/// A state tensor, and who has it so.
struct Use {
  std::string by;
  const Placement& placement;
};

std::string text_of(const Use& use, const ir::Mesh& mesh) {
  return ir::to_string(use.placement.whole) + " as " + ir::to_string(use.placement.sharding, mesh) + " " + use.by;
}

void require_same(const std::string& state, const Use& got, const Use& wanted, const ir::Mesh& mesh) {
  const Placement &a = got.placement, &b = wanted.placement;
  MEGACPP_REQUIRE(a.whole == b.whole && a.sharding == b.sharding, E9002,
                  {.where = state,
                   .got = text_of(got, mesh),
                   .wanted = text_of(wanted, mesh) + ": state stays where it is from step to step",
                   .next = "report it with the recipe: state has one sharding in all programs of a step"});
}

}  // namespace

void check_stable_state(const Partitioned& program, const Placements& known, const ir::Mesh& mesh) {
  const std::string name = "program " + program.graph.name();
  for (const auto& [state, placement] : program.inputs)
    if (const auto earlier = known.find(state); earlier != known.end())
      require_same(state, {"read by " + name, placement}, {"in earlier programs", earlier->second}, mesh);
  for (const ir::Output& output : program.graph.outputs()) {
    if (output.donated.empty()) continue;
    const Use after{"written by output '" + output.name + "' of " + name, program.outputs.at(output.name)};
    const auto own = program.inputs.find(output.donated), earlier = known.find(output.donated);
    if (own != program.inputs.end()) require_same(output.donated, after, {"read by " + name, own->second}, mesh);
    if (earlier != known.end()) require_same(output.donated, after, {"in earlier programs", earlier->second}, mesh);
  }
}

}  // namespace megacpp::partition
