// SPDX-License-Identifier: Apache-2.0
// How far a recipe can be stretched on given hardware, its layout kept: the largest device batch (the global batch
// grows with it), or the longest sequence (another experiment). Memory grows with both, so plans are bisected.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "megacpp/hardware/fit/search.h"

namespace megacpp::fit {

enum class Grown { batch, sequence };

struct Growth {
  Grown what = Grown::batch;
  int64_t unit = 1;            // sequences over all chips, or tokens; only multiples are legal
  std::vector<Found> tried;    // in the order tried
  std::optional<size_t> best;  // the largest that fits, else the largest that is close; nothing: not even one unit does
  std::optional<size_t> largest_close;  // beyond the best, where that fits and larger ones are close
  std::optional<size_t> next;           // the next multiple, which does not fit; nothing: `why` says what ends it
  std::string why;                      // "train.batch: ..." where a limit of the recipe ends it before memory does

  FitVerdict verdict() const { return best ? tried[*best].fit.verdict() : FitVerdict::does_not_fit; }
};

/// The layout must fill the hardware (E1401) and be legal for one unit (E1401 to E1407).
Growth grow(const recipe::Recipe& recipe, Grown what, const Assumptions& assumptions,
            const std::function<void(const Growth& so_far)>& progress = {});

}  // namespace megacpp::fit
