// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {

#define MEGACPP_CPU_KERNEL(name) Kernel name##_kernel();
#include "megacpp/machine/cpu/kernel_list.inc"
#undef MEGACPP_CPU_KERNEL

const std::vector<Kernel>& all_kernels() {
  static const std::vector<Kernel> table = {
#define MEGACPP_CPU_KERNEL(name) name##_kernel(),
#include "megacpp/machine/cpu/kernel_list.inc"
#undef MEGACPP_CPU_KERNEL
  };
  return table;
}

const Kernel* find_kernel(std::string_view op) {
  static const std::map<std::string_view, const Kernel*> index = [] {
    std::map<std::string_view, const Kernel*> by_op;
    for (const Kernel& kernel : all_kernels()) by_op.emplace(kernel.op, &kernel);
    return by_op;
  }();
  const auto at = index.find(op);
  return at == index.end() ? nullptr : at->second;
}

}  // namespace megacpp::runtime::cpu
