// SPDX-License-Identifier: Apache-2.0
// The collectives of a program as XLA left it, in our words: kind, axes of the mesh, bytes a chip sends by the count of
// ops::Transfer, and how often a step runs them. Two that start and end apart are one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/machine/xla/pjrt/hlo_program.h"

namespace megacpp::runtime::pjrt {

struct XlaCollective {
  std::string kind;       // of ops: "all_gather"; XLA's own word where we have none
  std::string axes;       // "data+expert" in the order of the mesh: those along which chips of a group differ
  int64_t parts = 1;      // chips in a group: fewer than the axes have where it is one of several stages
  int64_t bytes = 0;      // that a chip sends in one call
  int64_t calls = 0;      // per run of the program
  bool at_least = false;  // a loop around it has a length the compiler did not note
  std::string name;       // XLA's
  std::string op_name;    // what the program's text says it is for

  int64_t total_bytes() const { return calls * bytes; }
};

/// One entry for each instruction, in program order; branches count as if all were taken. Those that move nothing, of
/// groups of one chip, are left out. `mesh` is the one the program was written for: chip n is partition n.
std::vector<XlaCollective> collectives_of(const HloProgram& program, const ir::Mesh& mesh);

}  // namespace megacpp::runtime::pjrt
