// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/parallel.h"

#include "megacpp/core/base/error.h"

namespace megacpp::blocks {

const ir::Axes& Parallel::axes_of(Dim dim, char letter) const {
  static const ir::Axes none;
  if (const auto of_letter = letter_axes.find(letter); of_letter != letter_axes.end())
    if (const auto at = of_letter->second.find(dim); at != of_letter->second.end()) return at->second;
  const auto at = axes.find(dim);
  return at == axes.end() ? none : at->second;
}

ir::Sharding Parallel::sharding(const std::vector<Dim>& dims, char letter) const {
  ir::Sharding sharding;
  for (const Dim dim : dims) sharding.dims.push_back(axes_of(dim, letter));
  return sharding;
}

Parallel Parallel::of_letter(char letter) const {
  Parallel own = *this;
  own.letter_axes.clear();
  if (const auto at = letter_axes.find(letter); at != letter_axes.end())
    for (const auto& [dim, other] : at->second) own.axes[dim] = other;
  return own;
}

std::vector<int64_t> Parallel::time_order(int64_t chunks) const {
  std::vector<int64_t> order(static_cast<size_t>(chunks));
  if (!balanced_order) {
    for (int64_t i = 0; i < chunks; ++i) order[static_cast<size_t>(i)] = i;
    return order;
  }
  // Stored in `sequence_chunks` runs; finer cuts split each run into pieces that stay in order.
  MEGACPP_CHECK(chunks % sequence_chunks == 0) << chunks << " chunks of " << sequence_chunks << " runs";
  const int64_t pieces = chunks / sequence_chunks;
  for (int64_t run = 0; run < sequence_chunks; ++run) {
    const int64_t time = run % 2 == 0 ? run / 2 : sequence_chunks - 1 - run / 2;
    for (int64_t p = 0; p < pieces; ++p) order[static_cast<size_t>(run * pieces + p)] = time * pieces + p;
  }
  return order;
}

}  // namespace megacpp::blocks
