// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::testing_support {

inline ir::Node make_node(std::string op, std::vector<ir::ValueId> operands = {}, ir::Attrs attrs = {}) {
  ir::Node node;
  node.op = std::move(op);
  node.operands = std::move(operands);
  node.attrs = std::move(attrs);
  return node;
}

}  // namespace megacpp::testing_support
