// SPDX-License-Identifier: Apache-2.0
// The best layout of a recipe on given hardware: it fits, and a step takes least. A small space is compiled whole, so
// that the answer is that of trying everything; of a larger one estimates say which layouts to compile first, after the
// recipe's own and those that people try first, and a search says how many it left. Only what was compiled is a result.
// Nothing is discarded by an estimate: only state that alone exceeds a chip, which no plan goes below, speaks against a
// layout for good. A layout that overflows is tried again with more micro-steps or recompute, one with bytes to
// spare with less. First all letters have one level of recompute; the best layouts that
// need some are then compiled once more with train.recompute: auto, which may need less of it. Same recipe, same
// hardware, same answer, however many threads look for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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

/// What a search compiles where nobody says how much: a space of so many layouts whole, if they have no more than so
/// many blocks together, which compiling takes its time by; else the layouts that look best, so many.
inline constexpr int64_t kSmallSpace = 2000, kSmallSpaceBlocks = 5000, kTries = 48;

struct SearchOptions {
  std::optional<int64_t> tries = {};  // layouts to compile at most; absent: by the size of the space
  size_t with_auto = 3;               // of the best of them, once more with recompute left to planning
  int threads = 1;
  /// Called now and then from the calling thread.
  std::function<void(int64_t compiled, int64_t tries)> progress = {};
};

struct LayoutSearch {
  std::vector<Found> found;       // fitting ones first, by time; then the others, least free memory missing first
  int64_t considered = 0;         // products of degrees
  int64_t variants = 0;           // legal, with ZeRO and micro-steps
  std::vector<Dropped> dropped;   // with reasons
  int64_t left = 0;               // variants with a level of recompute that were not compiled; any may be the best
  bool splits_sequences = false;  // whether context_parallel was a choice

  bool fits() const { return !found.empty() && found.front().fit.fits(); }
  /// Whether the first is the best there is: everything was compiled but what cannot fit.
  bool is_complete() const { return left == 0; }
};

/// `found` is empty where no layout is legal; `dropped` then says why.
LayoutSearch search_layouts(const recipe::Recipe& recipe, const Assumptions& assumptions,
                            const SearchOptions& options = {});

/// Indices of those that no other betters in both bytes and time, least bytes first; ties keep the first. Where some
/// fit, only among those. `seconds` is the time of a step of each, as far as it is known.
std::vector<size_t> pareto_front(const std::vector<Found>& found, std::span<const double> seconds);

}  // namespace megacpp::fit
