// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/repeat.h"

namespace megacpp::base {
namespace {

size_t saved(const Repeat& repeat) { return repeat.count > 0 ? repeat.period * (repeat.count - 1) : 0; }

}  // namespace

// For each period, the longest stretch in which every entry equals the one a period before it. A period saves no more
// entries than come behind its first, so that the search ends early where a short one covers nearly all.
Repeat best_repeat(std::span<const size_t> kinds) {
  Repeat best;
  for (size_t period = 1; 2 * period <= kinds.size() && saved(best) < kinds.size() - period; ++period) {
    size_t length = 0;
    for (size_t i = period; i < kinds.size(); ++i) {
      length = kinds[i] == kinds[i - period] ? length + 1 : 0;
      const Repeat found{i + 1 - period - length, period, length / period + 1};
      if (found.count > 1 && saved(found) > saved(best)) best = found;
    }
  }
  return best;
}

}  // namespace megacpp::base
