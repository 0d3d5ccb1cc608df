// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/pjrt/xla_collectives.h"

#include <algorithm>
#include <map>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/xla/pjrt/hlo_runs.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::pjrt {
namespace {

/// The kind of an instruction that moves data between chips; empty for all others.
std::string kind_of(const std::string& opcode) {
  static const std::map<std::string, std::string> kinds = {{"all-reduce", "all_reduce"},
                                                           {"all-reduce-start", "all_reduce"},
                                                           {"all-gather", "all_gather"},
                                                           {"all-gather-start", "all_gather"},
                                                           {"reduce-scatter", "reduce_scatter"},
                                                           {"all-to-all", "all_to_all"},
                                                           {"ragged-all-to-all", "ragged-all-to-all"},
                                                           {"collective-broadcast", "collective-broadcast"},
                                                           {"collective-permute", "permute"},
                                                           {"collective-permute-start", "permute"}};
  const auto at = kinds.find(opcode);
  return at == kinds.end() ? "" : at->second;
}

// The TPU compiler writes a reduce-scatter as one fused computation of an all-reduce and the slice a chip keeps.
bool is_scattered(const HloComputation& computation) {
  return computation.name.find("all-reduce-scatter") != std::string::npos &&
         std::any_of(computation.instructions.begin(), computation.instructions.end(),
                     [](const HloInstruction& each) { return each.opcode == "dynamic-slice"; });
}

/// What the collective leaves. Some that are only started stand for (operands, results, ...).
int64_t result_bytes(const HloInstruction& instruction) {
  const bool has_operands =
      instruction.opcode == "all-gather-start" || instruction.opcode == "collective-permute-start";
  if (has_operands && instruction.shape.parts.size() >= 2) return instruction.shape.parts[1].bytes();
  return instruction.shape.bytes();
}

/// The axes of the mesh along which members of a group differ: of a stage of a collective too, whose groups are parts
/// of those of its axes. Empty where none does; "?" for chips that are not there.
std::string axes_along(const std::vector<std::vector<int64_t>>& groups, const ir::Mesh& mesh) {
  std::set<ir::AxisId> crossed;
  for (const std::vector<int64_t>& group : groups)
    for (const int64_t chip : group) {
      if (std::min(chip, group[0]) < 0 || std::max(chip, group[0]) >= mesh.chips()) return "?";
      for (size_t a = 0; a < mesh.axes().size(); ++a) {
        const auto axis = static_cast<ir::AxisId>(a);
        if (mesh.coordinate(chip, axis) != mesh.coordinate(group[0], axis)) crossed.insert(axis);
      }
    }
  return crossed.empty() ? "" : ir::to_string(ir::Axes(crossed.begin(), crossed.end()), mesh);
}

std::vector<std::vector<int64_t>> groups_of(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  std::vector<std::vector<int64_t>> groups;
  for (const auto& [source, target] : pairs) groups.push_back({source, target});
  return groups;
}

class Reader {
 public:
  explicit Reader(const ir::Mesh& mesh) : mesh_(mesh) {}

  void add(const HloComputation& computation, const HloRuns& runs, std::vector<XlaCollective>& into) const {
    const bool scattered = is_scattered(computation);
    for (const HloInstruction& instruction : computation.instructions) {
      std::string kind = kind_of(instruction.opcode);
      if (kind.empty()) continue;
      if (kind == "all_reduce" && scattered) kind = "reduce_scatter";
      XlaCollective found{.kind = kind,
                          .axes = {},
                          .calls = runs.count,
                          .at_least = runs.at_least,
                          .name = instruction.name,
                          .op_name = instruction.op_name};
      place(instruction, found);
      found.bytes = sent(found, result_bytes(instruction), instruction.opcode == "reduce-scatter");
      if (found.parts > 1) into.push_back(std::move(found));
    }
  }

 private:
  void place(const HloInstruction& instruction, XlaCollective& found) const {
    if (found.kind == "permute") {
      found.axes = axes_along(groups_of(instruction.pairs), mesh_);
      found.parts = found.axes.empty() ? 1 : 2;
      return;
    }
    std::vector<std::vector<int64_t>> groups = instruction.groups;
    if (groups.empty()) {
      groups.emplace_back();
      for (int64_t chip = 0; chip < mesh_.chips(); ++chip) groups[0].push_back(chip);
    }
    found.axes = axes_along(groups, mesh_);
    for (const std::vector<int64_t>& group : groups)
      found.parts = std::max(found.parts, static_cast<int64_t>(group.size()));
    MEGACPP_REQUIRE(found.parts <= mesh_.chips(), E3201,
                    ({.where = "the compiled program, " + found.name,
                      .got = "a group of " + std::to_string(found.parts) + " chips",
                      .wanted = "at most " + std::to_string(mesh_.chips()),
                      .next = "compile again; if it stays, try another version of the plugin"}));
  }

  // A collective's operands follow from what it leaves.
  static int64_t sent(const XlaCollective& found, int64_t result, bool result_is_part) {
    int64_t own = result_is_part ? result * found.parts : result;
    const ops::OpDef* const op = ops::find_op(found.kind);
    if (op == nullptr || !op->transfer) return own;
    if (op->transfer->kind == ops::Transfer::Kind::gather) own = result / found.parts;
    return op->transfer->sent_bytes(own, found.parts);
  }

  const ir::Mesh& mesh_;
};

}  // namespace

std::vector<XlaCollective> collectives_of(const HloProgram& program, const ir::Mesh& mesh) {
  const std::vector<HloRuns> runs = runs_of(program);
  const Reader reader(mesh);
  std::vector<XlaCollective> all;
  for (size_t c = 0; c < runs.size(); ++c)
    if (runs[c].count > 0) reader.add(program.computations[c], runs[c], all);
  return all;
}

}  // namespace megacpp::runtime::pjrt
