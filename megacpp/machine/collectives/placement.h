// SPDX-License-Identifier: Apache-2.0
// Which process owns which chips of a mesh. Tensor parallelism exchanges most, expert parallelism next: their groups
// stay inside a process where they fit, and as processes of one host have neighbouring numbers, inside a host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"

namespace megacpp::collectives {

/// The chips in the order in which they are dealt to processes, an equal share each: chips that differ along `model`
/// alone are neighbours, then those along `expert`, then the rest as the mesh has them. Begins with chip 0.
std::vector<int64_t> dealing_order(const ir::Mesh& mesh);

/// The process of every chip. `order`: as above; empty: by number. `chips` is a multiple of `processes`.
struct Dealing {
  int64_t chips = 1;
  int64_t processes = 1;
  std::vector<int64_t> order = {};
};
std::vector<int64_t> owners_of(const Dealing& dealing);

/// "model, expert inside a process; context, data across": the axes of the mesh, without those of one chip.
std::string placement_text(const ir::Mesh& mesh, const std::vector<int64_t>& owners);

}  // namespace megacpp::collectives
