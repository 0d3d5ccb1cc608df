// SPDX-License-Identifier: Apache-2.0
#include "megacpp/catalog/records.h"

namespace megacpp::catalog {

std::string_view ending_name(Ending ending) { return ending == Ending::fits ? "fits" : "fails"; }

double total(const std::vector<Part>& parts) {
  double sum = 0;
  for (const Part& part : parts) sum += part.value;
  return sum;
}

}  // namespace megacpp::catalog
