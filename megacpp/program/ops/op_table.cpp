// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

#define MEGACPP_OP(name) OpDef name##_def();
#include "megacpp/program/ops/op_list.inc"
#undef MEGACPP_OP

const std::vector<OpDef>& all_ops() {
  static const std::vector<OpDef> table = {
#define MEGACPP_OP(name) name##_def(),
#include "megacpp/program/ops/op_list.inc"
#undef MEGACPP_OP
  };
  return table;
}

const OpDef* find_op(std::string_view name) {
  // Only looked up, once or more for every node of every pass.
  static const std::unordered_map<std::string_view, const OpDef*> index = [] {
    std::unordered_map<std::string_view, const OpDef*> by_name;
    for (const OpDef& op : all_ops()) by_name[op.name] = &op;
    return by_name;
  }();
  const auto at = index.find(name);
  return at == index.end() ? nullptr : at->second;
}

const OpDef& op_def(std::string_view name) {
  const OpDef* op = find_op(name);
  MEGACPP_CHECK(op != nullptr) << "no op is named '" << name << "'";
  return *op;
}

const Transfer* transfer_of(const ir::Node& node) {
  const std::optional<Transfer>& transfer = op_def(started_op(node)).transfer;
  return transfer ? &*transfer : nullptr;
}

}  // namespace megacpp::ops
