// SPDX-License-Identifier: Apache-2.0
// The best layout of a recipe on given hardware: it fits, and a step takes least. A space that may be compiled whole
// is; of a larger one estimates say which layouts to compile first, after those that people try first. Only what was
// compiled is a result. A layout that overflows is tried again with more micro-steps or recompute, one with bytes to
// spare with less. First all letters have one level of recompute; the best layouts that
// need some are then compiled once more with train.recompute: auto, which may need less of it. Same recipe, same
// hardware, same answer, however many threads look for it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "megacpp/fit/candidates.h"
#include "megacpp/fit/estimate.h"
#include "megacpp/fit/islands.h"
#include "megacpp/fit/quick_estimate.h"
#include "megacpp/fit/regime.h"
#include "megacpp/memory/out_of_memory.h"

namespace megacpp::fit {

/// One plan that was compiled, without its programs.
struct Found {
  recipe::Recipe recipe;
  plan::Changes changes;  // against the recipe that was requested
  std::string layout;     // plan::layout_line
  FitReport fit;
  StepTime time;
  Regime regime;
  std::vector<memory::RoleBytes> roles;  // of the worst chip, most first
  std::vector<AxisIsland> islands = {};  // the link under each axis
  std::vector<Crossing> crossings = {};  // axes that belong inside the fast domain and leave it
  QuickEstimate quick_estimate = {};     // what was expected of it

  double tokens_per_second() const;
  int64_t needed() const { return fit.worst().needed(); }
};

/// With nothing but what a result keeps.
Found compile_candidate(const recipe::Recipe& requested, const plan::Changes& changes, const Assumptions& assumptions);

struct SearchOptions {
  int64_t tries = 48;    // layouts to compile at most
  size_t with_auto = 3;  // of the best of them, once more with recompute left to planning
  int threads = 1;
  /// Called now and then from the calling thread.
  std::function<void(int64_t compiled, int64_t tries)> progress = {};
};

struct LayoutSearch {
  std::vector<Found> found;       // fitting ones first, by time; then the others, least free memory missing first
  int64_t considered = 0;         // products of degrees
  int64_t variants = 0;           // legal, with ZeRO and micro-steps
  std::vector<Dropped> dropped;   // with reasons
  int64_t left = 0;               // layouts (degrees, ZeRO) that were not compiled, being estimated slower or larger
  bool splits_sequences = false;  // whether context_parallel was a choice

  bool fits() const { return !found.empty() && found.front().fit.fits(); }
};

/// `found` is empty where no layout is legal; `dropped` then says why.
LayoutSearch search_layouts(const recipe::Recipe& recipe, const Assumptions& assumptions,
                            const SearchOptions& options = {});

/// Indices of those that no other betters in both bytes and time, least bytes first; ties keep the first. Where some
/// fit, only among those. `seconds` is the time of a step of each, as far as it is known.
std::vector<size_t> pareto_front(const std::vector<Found>& found, std::span<const double> seconds);

}  // namespace megacpp::fit
