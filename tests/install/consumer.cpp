// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"

int main() {
  using namespace megacpp;
  if (base::code_name(base::Code::E1001) != "E1001") return 1;
  if (ops::find_op("dot") == nullptr) return 1;
  std::printf("megacpp package works: %zu ops\n", ops::all_ops().size());
  return 0;
}
