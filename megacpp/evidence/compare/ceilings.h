// SPDX-License-Identifier: Apache-2.0
// The largest shapes that ran, per model, topology and lane, from receipts. A shape is validated once it ran often
// enough and never ran out of memory since; a larger one that ran less often is a single peak and stands apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/evidence/compare/time_moves.h"
#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

/// A micro-step on all chips together.
struct TriedShape {
  int64_t batch = 0;
  int64_t sequence = 0;
  size_t ran = 0;            // runs that made steps beyond the first and ended in good order
  size_t out_of_memory = 0;  // runs that did not

  int64_t tokens() const { return batch * sequence; }
};

struct Ceiling {
  std::string model;                           // name and hash
  std::string family;                          // dense, sparse, hybrid
  std::string topology;                        // slice and mesh
  std::string lane;                            // with layout, precision and recompute
  std::optional<TriedShape> validated = {};    // the largest
  std::optional<TriedShape> single_peak = {};  // the largest that ran, where it is larger than that
  std::optional<TriedShape> too_large = {};    // the smallest that ran out of memory and never ran
};

inline constexpr size_t kTimesToValidate = 3;

/// Sorted by model, topology and lane. Shapes are ordered by tokens, then by length.
std::vector<Ceiling> ceilings_of(Receipts receipts, size_t times = kTimesToValidate);

}  // namespace megacpp::compare
