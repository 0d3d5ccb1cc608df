// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/parameter.h"

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/base/philox_normals.h"

namespace megacpp::blocks {
namespace {

double dt_bias(const Init& init, double uniform) {
  const double dt = std::max(std::exp(std::log(init.a) + uniform * (std::log(init.b) - std::log(init.a))), init.c);
  return dt + std::log(-std::expm1(-dt));  // softplus of this is dt
}

// softplus(p) = -log(rho), so p = log(1 / rho - 1).
double rg_lru(const Init& init, double uniform) {
  const double rho = std::sqrt(init.a * init.a + uniform * (init.b * init.b - init.a * init.a));
  return std::log(1.0 / rho - 1.0);
}

double element(const Init& init, const base::Philox& random, uint64_t index) {
  switch (init.kind) {
    case Init::Kind::constant:
      return init.a;
    case Init::Kind::normal:
      break;  // many at a time
    case Init::Kind::log_uniform_int:
      return std::log(1.0 + static_cast<double>(index));
    case Init::Kind::dt_bias:
      return dt_bias(init, random.uniform(index));
    case Init::Kind::rg_lru:
      return rg_lru(init, random.uniform(index));
  }
  return 0.0;
}

}  // namespace

bool name_matches(std::string_view pattern, std::string_view name) {
  size_t at = 0, in_name = 0;            // what comes before them matches
  size_t star = std::string_view::npos;  // the last one seen
  size_t behind_star = 0;                // where in the name the text after it begins
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      behind_star = in_name;
    } else if (at < pattern.size() && pattern[at] == name[in_name]) {
      ++at, ++in_name;
    } else if (star != std::string_view::npos) {
      // A longer text for the last star is enough: what an earlier one could take more of, this one can take too.
      at = star + 1;
      in_name = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

void initialise(const Parameter& parameter, uint64_t seed, int64_t first, std::span<float> values) {
  const base::Philox random(seed, parameter.name);
  if (parameter.init.kind == Init::Kind::normal)
    return base::fill_normals(random, parameter.init.a, static_cast<uint64_t>(first), values);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(element(parameter.init, random, static_cast<uint64_t>(first) + i));
}

}  // namespace megacpp::blocks
