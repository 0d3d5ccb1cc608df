// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/records.h"

namespace megacpp::catalog {

double total(const std::vector<Part>& parts) {
  double sum = 0;
  for (const auto& [name, value] : parts) sum += value;
  return sum;
}

}  // namespace megacpp::catalog
