// SPDX-License-Identifier: Apache-2.0
// A graph as text and back, one node a line, as `megacpp explain` prints it and tests write it:
//   graph "tiny" {
//     %0 = input() {dtype="f32", name="x", shape=[2,3]} : f32[2,3] @embed #batch
//     output "loss" = %0 donates "x"
//   }
// Result types are taken as printed, since ops are not known here. Reals come back bit for bit, but for NaN payloads.
// Both directions take time linear in the graph's size.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/core/ir/graph.h"

namespace megacpp::ir {

/// Values are numbered in order of definition. The scope '@..' is left out when empty, the role '#..' when temporary.
std::string print(const Graph& graph);

/// E1301 with the line when the text is not a graph. Any distinct value numbers will do: print() renumbers them.
Graph parse(std::string_view text);

}  // namespace megacpp::ir
