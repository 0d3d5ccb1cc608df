// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/degrees.h"

#include <algorithm>

namespace megacpp::plan {

std::array<Degree, 5> degrees_of(const recipe::Layout& layout) {
  return {{{"layout.data_parallel", layout.data_parallel},
           {"layout.expert_parallel", layout.expert_parallel},
           {"layout.context_parallel", layout.context_parallel},
           {"layout.tensor_parallel", layout.tensor_parallel},
           {"layout.pipeline_parallel", layout.pipeline_parallel}}};
}

int64_t product_of_degrees(const recipe::Layout& layout) {
  int64_t product = 1;
  for (const Degree& degree : degrees_of(layout)) product = std::min(product * degree.value, kMaxChips * 2);
  return product;
}

}  // namespace megacpp::plan
