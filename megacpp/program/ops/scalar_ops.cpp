// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/scalar_ops.h"

#include <algorithm>
#include <cmath>

namespace megacpp::ops {

const std::vector<ScalarOp>& scalar_ops() {
  static const std::vector<ScalarOp> table = {
      {"abs", 1, [](double a, double, double) { return std::fabs(a); }},
      {"add", 2, [](double a, double b, double) { return a + b; }},
      {"convert", 1, [](double a, double, double) { return a; }},
      {"cos", 1, [](double a, double, double) { return std::cos(a); }},
      {"div", 2, [](double a, double b, double) { return a / b; }},
      {"eq", 2, [](double a, double b, double) { return a == b ? 1.0 : 0.0; }},
      {"exp", 1, [](double a, double, double) { return std::exp(a); }},
      {"ge", 2, [](double a, double b, double) { return a >= b ? 1.0 : 0.0; }},
      {"gt", 2, [](double a, double b, double) { return a > b ? 1.0 : 0.0; }},
      {"le", 2, [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }},
      {"log", 1, [](double a, double, double) { return std::log(a); }},
      {"log1p", 1, [](double a, double, double) { return std::log1p(a); }},
      {"logistic", 1, [](double a, double, double) { return 1.0 / (1.0 + std::exp(-a)); }},
      {"lt", 2, [](double a, double b, double) { return a < b ? 1.0 : 0.0; }},
      {"max", 2, [](double a, double b, double) { return a > b ? a : b; }},
      {"min", 2, [](double a, double b, double) { return a < b ? a : b; }},
      {"mul", 2, [](double a, double b, double) { return a * b; }},
      {"ne", 2, [](double a, double b, double) { return a != b ? 1.0 : 0.0; }},
      {"neg", 1, [](double a, double, double) { return -a; }},
      {"rsqrt", 1, [](double a, double, double) { return 1.0 / std::sqrt(a); }},
      {"select", 3, [](double a, double b, double c) { return a != 0.0 ? b : c; }},
      {"sign", 1, [](double a, double, double) { return a > 0   ? 1.0
                                                        : a < 0 ? -1.0
                                                                : 0.0; }},
      {"sin", 1, [](double a, double, double) { return std::sin(a); }},
      {"sqrt", 1, [](double a, double, double) { return std::sqrt(a); }},
      {"sub", 2, [](double a, double b, double) { return a - b; }},
      {"tanh", 1, [](double a, double, double) { return std::tanh(a); }},
  };
  return table;
}

const ScalarOp* find_scalar_op(std::string_view name) {
  const auto& table = scalar_ops();
  const auto at = std::lower_bound(table.begin(), table.end(), name,
                                   [](const ScalarOp& op, std::string_view key) { return op.name < key; });
  return at != table.end() && at->name == name ? &*at : nullptr;
}

}  // namespace megacpp::ops
