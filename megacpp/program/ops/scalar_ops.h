// SPDX-License-Identifier: Apache-2.0
// The scalar meaning of every elementwise op, in one table: the reference kernel, the tile programs of `fused` and the
// emitters read it from here.
#pragma once

#include <string_view>
#include <vector>

namespace megacpp::ops {

struct ScalarOp {
  std::string_view name;
  int arity;
  double (*apply)(double a, double b, double c);  // unused arguments are 0
};

const std::vector<ScalarOp>& scalar_ops();
const ScalarOp* find_scalar_op(std::string_view name);

}  // namespace megacpp::ops
