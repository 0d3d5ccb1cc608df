// SPDX-License-Identifier: Apache-2.0
// The best layout of a recipe on given hardware: it fits, and a step takes least. Layouts that are close come after all
// that fit: only the compiler of the hardware can tell. A small space is compiled whole, so
// that the answer is that of trying everything; of a larger one estimates say which layouts to compile first, after the
// recipe's own and those that people try first, without ZeRO last, and a search says how many it left. Only what was
// compiled is a result.
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
#include <string>
#include <vector>

#include "megacpp/hardware/fit/candidates.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/islands.h"
#include "megacpp/hardware/fit/quick_estimate.h"
#include "megacpp/hardware/fit/regime.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::fit {

/// One plan that was compiled, without its programs.
struct Found {
  recipe::Recipe recipe;
  plan::Changes changes;  // against the recipe that was requested
  std::string layout;     // plan::layout_line
  FitReport fit;
  StepTime time;
  Regime regime;
  std::vector<memory::RoleBytes> roles;            // of the worst chip, most first
  std::vector<AxisIsland> islands = {};            // the link under each axis
  std::vector<Crossing> crossings = {};            // axes that belong inside the fast domain and leave it
  QuickEstimate quick_estimate = {};               // what was expected of it
  std::optional<ShallowDepths> planned_from = {};  // where blocks that repeat were planned once

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
  /// Called now and then from the calling thread, with the best so far (of the best verdict the fastest); none: nothing
  /// was compiled yet, or all that was is refused.
  std::function<void(int64_t compiled, int64_t tries, const Found* best)> progress = {};
};

/// Layouts that pass all gates and that compiling refuses for one reason: the error and where it is. What it got there
/// may be another with every layout.
struct Refused {
  struct Layout {
    plan::Changes settings;  // all that a search sets, also what is as in the recipe
    std::string got;
  };
  std::string reason = {};
  std::vector<Layout> layouts = {};  // as they were compiled
};

struct LayoutSearch {
  std::vector<Found> found;       // by time what fits, then what is close; then the others, least missing memory first
  int64_t considered = 0;         // products of degrees
  int64_t variants = 0;           // legal, with ZeRO and micro-steps
  std::vector<Dropped> dropped;   // with reasons
  std::vector<Refused> refused;   // sorted by reason
  int64_t left = 0;               // variants with a level of recompute that were not compiled; any may be the best
  bool splits_sequences = false;  // whether context_parallel was a choice

  /// That of the first.
  FitVerdict verdict() const { return found.empty() ? FitVerdict::does_not_fit : found.front().fit.verdict(); }
  bool fits() const { return verdict() == FitVerdict::fits; }
  bool may_fit() const { return verdict() != FitVerdict::does_not_fit; }
  /// Whether the first is the best there is: everything was compiled but what cannot fit.
  bool is_complete() const { return left == 0; }
};

/// `found` is empty where no layout is legal or compiles; `dropped` and `refused` then say why.
LayoutSearch search_layouts(const recipe::Recipe& recipe, const Assumptions& assumptions,
                            const SearchOptions& options = {});

/// A layout as a front sees it: as planned, or as far as more is known.
struct FrontPoint {
  int64_t bytes = 0;   // of the worst chip
  double seconds = 0;  // of a step
  FitVerdict verdict = FitVerdict::fits;
};

/// Indices of those that no other betters in both bytes and time, least bytes first; ties keep the first. Only among
/// those of the best verdict there is: beside what fits, what is close is not on it.
std::vector<size_t> pareto_front(std::span<const FrontPoint> points);

}  // namespace megacpp::fit
