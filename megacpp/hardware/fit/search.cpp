// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <numeric>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/hardware/fit/usual_layouts.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/plan/print.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr size_t kRound = 8;     // compiled between two looks at what was learnt
constexpr double kSlack = 1.25;  // a quick estimate so far above the limit may still fit
constexpr double kNear = 1.1;    // one so many times that of what fits may still be faster
constexpr double kHopeless = 2;  // one so many times that of what fits is looked at last
constexpr double kMostOff = 8;   // one layout says no more of its variants than this factor
constexpr const char* kStateTooLarge = "weights, gradients and optimizer state alone exceed a chip";

/// What chips leave to a plan, bytes: the one that has least, and the one that has most.
struct PlanLimits {
  double least, most;
};

/// What is expected of a step, bytes beside code: up to `surely` it fits a chip, above `possibly` it does not.
struct FitBounds {
  double expected = INFINITY;  // fits by what is expected
  double surely = INFINITY, possibly = INFINITY;
};

/// As far from what is expected as the least and the most of a step with that reservation are.
FitBounds bounds_of(const Reservation& reservation, double limit) {
  const double code = static_cast<double>(reservation.code);
  const double expected = std::max(1.0, static_cast<double>(reservation.expected) - code);
  const double most = static_cast<double>(reservation.most) - code;
  const double least = static_cast<double>(reservation.least - reservation.least_code);
  return {.expected = limit - code,
          .surely = (limit - code) * expected / std::max(1.0, most),
          .possibly = (limit - static_cast<double>(reservation.least_code)) * expected / std::max(1.0, least)};
}

/// One way to run a layout.
struct Option {
  LayoutChoice choice;
  QuickEstimate quick_estimate;
  bool tried = false;
};

/// A layout (degrees and ZeRO) with all its micro-steps and levels of recompute.
struct Family {
  std::vector<Option> options;  // fastest quick_estimate first
  double scale = 1;             // of needed bytes beside the state over estimated ones, once it was compiled
  std::optional<double> fit_estimate = {};    // seconds: the least of options that were compiled and fit
  std::optional<double> close_estimate = {};  // the least of those that are close
  FitBounds bounds = {};                      // on the chip that has least, by the last that was compiled and close
  std::optional<size_t> next = {};            // option to compile
  bool is_doubtful = false;                   // next is expected not to fit; it is the smallest
  bool is_near = false;                       // next is estimated no faster than what fits already

  /// Without ZeRO every chip holds and updates all, for as many bytes on the wire: faster only where a step is little
  /// more than launches and latency, and such spaces are compiled whole.
  bool is_without_zero() const { return options.front().choice.zero == 0; }

  double bytes(size_t option) const {
    const QuickEstimate& estimate = options[option].quick_estimate;
    return estimate.state + (estimate.bytes - estimate.state) * scale;
  }

  /// The fastest within the limit that was not tried, unless what was compiled is surely faster.
  std::optional<size_t> fastest_within(double limit, const std::optional<double>& compiled) const {
    const double slowest = compiled ? *compiled * kNear : INFINITY;
    for (size_t i = 0; i < options.size() && options[i].quick_estimate.seconds <= slowest; ++i)
      if (!options[i].tried && bytes(i) <= limit) return i;
    return std::nullopt;
  }

  bool is_no_faster(const std::optional<size_t>& option, const std::optional<double>& compiled) const {
    return option && compiled && options[*option].quick_estimate.seconds >= *compiled;
  }

  /// The fastest that was not tried and should fit, within `expected`, and surely once some option was close; where one
  /// does fit, also what is close and may be faster. Where none should fit and none was seen to, the smallest once,
  /// beside what is close too, so that no estimate is all that speaks against a layout.
  void choose(double expected) {
    is_doubtful = false;
    next = fastest_within(close_estimate ? bounds.surely : expected, fit_estimate);
    is_near = is_no_faster(next, fit_estimate);
    if ((!next || is_near) && close_estimate) {
      const std::optional<size_t> close = fastest_within(bounds.possibly, close_estimate);
      if (close && (!next || *close < *next)) next = close, is_near = true;
    }
    if (next || fit_estimate) return;
    size_t smallest = 0;
    for (size_t i = 1; i < options.size(); ++i)
      if (bytes(i) < bytes(smallest)) smallest = i;
    if (options[smallest].tried) return;
    next = smallest;
    is_doubtful = true;
  }

  void begin(const PlanLimits& limits) {
    std::ranges::stable_sort(options, std::less<>(),
                             [](const Option& option) { return option.quick_estimate.seconds; });
    choose(limits.least * kSlack);
  }

  void learn(size_t option, const Found& found, const PlanLimits& limits) {
    const QuickEstimate& estimate = options[option].quick_estimate;
    const Reservation& reservation = found.fit.worst().reservation;
    const double beside = static_cast<double>(reservation.expected - reservation.code) - estimate.state;
    scale = std::clamp(beside / std::max(1.0, estimate.bytes - estimate.state), 1 / kMostOff, kMostOff);
    std::optional<double>& least = found.fit.fits() ? fit_estimate : close_estimate;
    if (found.fit.may_fit()) least = std::min(least.value_or(INFINITY), estimate.seconds);
    const FitBounds found_bounds = bounds_of(reservation, limits.least);
    if (found.fit.verdict() == FitVerdict::close) bounds = found_bounds;
    choose(found_bounds.expected);
  }
};

bool same_layout(const LayoutChoice& a, const LayoutChoice& b) {
  const auto degrees = [](const LayoutChoice& c) {
    return std::tuple(c.data, c.expert, c.context, c.tensor, c.pipeline, c.zero);
  };
  return degrees(a) == degrees(b);
}

double as_real(int64_t value) { return static_cast<double>(value); }

PlanLimits plan_limits(const Assumptions& assumptions) {
  const std::optional<int64_t> pool = pool_of(hw::device_of(assumptions.slice.chip), assumptions.pool_share);
  const auto limit_of = [&](int64_t own) {
    if (own == 0) return pool ? as_real(*pool) : INFINITY;
    return as_real(assumptions.pool_share < 1 && pool ? std::min(own, *pool) : own);
  };
  PlanLimits limits{.least = limit_of(0), .most = limit_of(0)};
  if (!assumptions.limits.empty()) limits = {.least = INFINITY, .most = 0};
  for (const int64_t own : assumptions.limits) {
    limits.least = std::min(limits.least, limit_of(own));
    limits.most = std::max(limits.most, limit_of(own));
  }
  return limits;
}

/// Whether no plan of it fits, whatever is estimated. Stages of a pipeline share the parameters out, so that one of
/// them holds the mean or more: on the chip that has most at best. Measurements that correct plans may make them
/// smaller, and then nothing is sure.
bool cannot_fit(const LayoutChoice& choice, double least_bytes, const PlanLimits& limits,
                const Assumptions& assumptions) {
  if (!assumptions.peaks.empty()) return false;
  return least_bytes > (choice.pipeline > 1 ? limits.most : limits.least);
}

/// Whether it is the recipe's own, whatever it recomputes.
bool is_requested(const Recipe& recipe, const LayoutChoice& c) {
  const recipe::Layout& layout = recipe.layout;
  return std::tuple(c.data, c.expert, c.context, c.tensor, c.pipeline, c.zero, c.batch, c.micro_steps) ==
         std::tuple(layout.data_parallel, layout.expert_parallel, layout.context_parallel, layout.tensor_parallel,
                    layout.pipeline_parallel, plan::zero_level(layout), recipe.train.batch, recipe.train.micro_steps);
}

/// A family and one of its options.
struct Pick {
  size_t family, option;
};

class Search {
 public:
  Search(const Recipe& recipe, const Assumptions& assumptions, const SearchOptions& options)
      : recipe_(recipe),
        assumptions_(assumptions),
        options_(options),
        limits_(plan_limits(assumptions)),
        pool_(options.threads),
        estimator_(recipe, assumptions, pool_),
        free_levels_(AutoRecompute(recipe, assumptions).choices()) {}

  void run(SplitSequences split) {
    gather(split);
    compiled_ = small_picks_ = 0;
    const int64_t space = options_in_space();
    tries_ = options_.tries.value_or(default_tries(space));
    if (options_.progress) options_.progress(compiled_, tries_, best_so_far());
    for (std::vector<Pick> round = first_round(space); !round.empty(); round = next_round()) {
      compile(round);
      if (options_.progress) options_.progress(compiled_, tries_, best_so_far());
    }
    result_.left += space - compiled_;
  }

  bool has_some_that_may_fit() const {
    return std::ranges::any_of(result_.found, [](const Found& one) { return one.fit.may_fit(); });
  }

  LayoutSearch finish() {
    compile_with_auto();
    std::ranges::stable_sort(result_.found, std::less<>(), rank);
    return std::move(result_);
  }

 private:
  static std::pair<FitVerdict, double> rank(const Found& one) {
    const FitVerdict verdict = one.fit.verdict();
    return {verdict, verdict != FitVerdict::does_not_fit ? one.time.seconds()
                                                         : -static_cast<double>(one.fit.worst().free_bytes().value())};
  }

  const Found* best_so_far() const {
    const auto best = std::ranges::min_element(result_.found, std::less<>(), rank);
    return best == result_.found.end() ? nullptr : &*best;
  }

  // The second time sequences are split as well: what was looked at the first time is left out.
  void gather(SplitSequences split) {
    const bool is_again = result_.considered > 0;
    Candidates candidates = legal_layouts(recipe_, assumptions_.slice.devices(), split, assumptions_.cannot_run);
    if (is_again) std::erase_if(candidates.legal, [](const LayoutChoice& c) { return c.context == 1; });
    std::vector<Option> too_large;
    families_.clear();
    for (const LayoutChoice& legal : candidates.legal)
      if (std::optional<Option> smallest = add(legal)) too_large.push_back(std::move(*smallest));
    candidates.drop(kStateTooLarge, static_cast<int64_t>(too_large.size()));
    // Nothing can fit: the smallest few are compiled all the same, to show how far off the hardware is.
    if (families_.empty() && !has_some_that_may_fit()) {
      std::ranges::stable_sort(too_large, std::less<>(),
                               [](const Option& option) { return option.quick_estimate.bytes; });
      too_large.resize(std::min(too_large.size(), kRound));
      for (Option& option : too_large) families_.push_back({.options = {std::move(option)}});
    }
    for (Family& family : families_) family.begin(limits_);
    result_.splits_sequences = split == SplitSequences::yes;
    result_.considered = candidates.considered;
    result_.variants += static_cast<int64_t>(candidates.legal.size());
    if (is_again)
      for (const Dropped& one : result_.dropped)
        if (one.reason == kStateTooLarge) candidates.drop(one.reason, one.layouts);
    std::erase_if(candidates.dropped, [](const Dropped& one) { return one.layouts == 0; });
    result_.dropped = std::move(candidates.dropped);
  }

  /// All that is recomputed or nothing at all; where state alone is too large for a chip it is not added, and returned
  /// as it would be smallest.
  std::optional<Option> add(const LayoutChoice& legal) {
    const std::array<QuickEstimate, 3> estimates = estimator_.estimates(legal);
    std::vector<Option> options;
    for (size_t level = 0; level < estimates.size(); ++level) {
      options.push_back({.choice = legal, .quick_estimate = estimates[level]});
      options.back().choice.recompute = kRecomputeLevels[level];
    }
    if (cannot_fit(legal, estimates[0].least, limits_, assumptions_)) return options.back();
    if (families_.empty() || !same_layout(families_.back().options[0].choice, legal)) families_.emplace_back();
    families_.back().options.insert(families_.back().options.end(), options.begin(), options.end());
    return std::nullopt;
  }

  int64_t options_in_space() const {
    int64_t space = 0;
    for (const Family& family : families_) space += std::ssize(family.options);
    return space;
  }

  int64_t default_tries(int64_t space) const {
    const bool is_small = space <= kSmallSpace && space * recipe_.model.depth <= kSmallSpaceBlocks;
    return is_small ? space : kTries;
  }

  /// A space that is no larger than what may be compiled, whole. Of a larger one the recipe's own layout and what
  /// people would try first, whatever is estimated of them.
  std::vector<Pick> first_round(int64_t space) {
    std::vector<Pick> picks;
    for (size_t f = 0; f < families_.size(); ++f)
      for (size_t o = 0; o < families_[f].options.size(); ++o) {
        const bool is_first = space <= tries_ || is_requested(recipe_, families_[f].options[o].choice);
        if (is_first && compiled_ < tries_) picks.push_back(taken({f, o}));
      }
    std::vector<LayoutChoice> layouts;
    for (const Family& family : families_) layouts.push_back(family.options[0].choice);
    for (const size_t f : usual_layouts(layouts, chips_of_node(assumptions_.slice)))
      if (families_[f].next && compiled_ < tries_) picks.push_back(taken({f, *families_[f].next}));
    return picks.empty() ? next_round() : picks;
  }

  Pick taken(Pick pick) {
    families_[pick.family].options[pick.option].tried = true;
    families_[pick.family].next.reset();
    ++compiled_;
    return pick;
  }

  std::vector<Pick> next_round() {
    std::vector<Pick> round;
    bool is_of_rest = false;
    while (round.size() < kRound && compiled_ < tries_) {
      const bool wants_small = compiled_ % 4 == 3 && small_picks_ < tries_ / 6;
      std::optional<Pick> pick = wants_small ? smallest() : std::nullopt;
      if (pick) ++small_picks_;
      if (!pick) pick = fastest();
      // What a round teaches may bring something better than the rest, which therefore has rounds of its own.
      is_of_rest = is_of_rest || (!pick && round.empty());
      if (!pick && is_of_rest) pick = next_of_rest();
      if (!pick) break;
      round.push_back(taken(*pick));
    }
    return round;
  }

  /// For the front's other end: least bytes of all that was not tried.
  std::optional<Pick> smallest() const {
    std::optional<Pick> best;
    double least = 0;
    for (size_t f = 0; f < families_.size(); ++f)
      for (size_t o = 0; o < families_[f].options.size(); ++o) {
        if (families_[f].options[o].tried || (best && families_[f].bytes(o) >= least)) continue;
        best = {f, o};
        least = families_[f].bytes(o);
      }
    return best;
  }

  /// Of what should fit the fastest, layouts of which nothing fits yet first; then, while nothing fits, the smallest of
  /// the rest.
  std::optional<Pick> fastest() const {
    std::optional<Pick> best;
    std::tuple<bool, bool, double> least;
    for (size_t f = 0; f < families_.size(); ++f) {
      const Family& family = families_[f];
      if (!family.next || family.is_without_zero()) continue;
      const QuickEstimate& quick_estimate = family.options[*family.next].quick_estimate;
      if (fastest_estimate_ && (family.is_doubtful || quick_estimate.seconds > kHopeless * *fastest_estimate_))
        continue;
      const std::tuple<bool, bool, double> rank(family.is_doubtful, family.is_near,
                                                family.is_doubtful ? quick_estimate.bytes : quick_estimate.seconds);
      if (best && rank >= least) continue;
      best = {f, *family.next};
      least = rank;
    }
    return best;
  }

  /// What nothing speaks for and nothing speaks against for good: what should fit first, by time; without ZeRO last.
  std::optional<Pick> next_of_rest() const {
    std::optional<Pick> best;
    std::tuple<bool, bool, double> least;
    for (size_t f = 0; f < families_.size(); ++f)
      for (size_t o = 0; o < families_[f].options.size(); ++o) {
        if (families_[f].options[o].tried) continue;
        const std::tuple<bool, bool, double> rank(families_[f].is_without_zero(),
                                                  families_[f].bytes(o) > limits_.least * kSlack,
                                                  families_[f].options[o].quick_estimate.seconds);
        if (best && rank >= least) continue;
        best = {f, o};
        least = rank;
      }
    return best;
  }

  /// What to set. Without recompute, letters that are left to planning take what costs no time.
  plan::Changes changes_of(const LayoutChoice& choice) const {
    plan::Changes changes = changes_for(recipe_, choice);
    if (choice.recompute != recipe::RecomputeLevel::none) return changes;
    for (plan::Change& change : changes)
      for (const RecomputeChoice& free : free_levels_)
        if (change.key == recipe::recompute_key(free.letter)) change.value = base::text_of(free.level);
    return changes;
  }

  /// One way or the other.
  struct Outcome {
    std::optional<Found> found;
    std::optional<base::Error> refused;
  };

  std::vector<Outcome> compile_all(const std::vector<Option>& options) {
    std::vector<Outcome> outcomes(options.size());
    std::vector<std::exception_ptr> failed(options.size());
    pool_.for_each(static_cast<int64_t>(options.size()), [&](int64_t i, int) {
      const size_t at = static_cast<size_t>(i);
      try {
        outcomes[at].found = compile_candidate(recipe_, changes_of(options[at].choice), assumptions_);
        outcomes[at].found->quick_estimate = options[at].quick_estimate;
      } catch (const base::Error& error) {
        outcomes[at].refused = error;
        if (base::class_of(error.code()) == base::ErrorClass::internal) failed[at] = std::current_exception();
      } catch (...) {
        failed[at] = std::current_exception();
      }
    });
    for (const std::exception_ptr& error : failed)
      if (error) std::rethrow_exception(error);
    return outcomes;
  }

  void compile(const std::vector<Pick>& round) {
    std::vector<Option> options;
    for (const Pick& pick : round) options.push_back(families_[pick.family].options[pick.option]);
    std::vector<Outcome> outcomes = compile_all(options);
    for (size_t i = 0; i < round.size(); ++i) {
      if (outcomes[i].refused) {
        add_refused(options[i].choice, *outcomes[i].refused);
        continue;
      }
      Found& found = *outcomes[i].found;
      families_[round[i].family].learn(round[i].option, found, limits_);
      if (found.fit.fits())
        fastest_estimate_ = std::min(fastest_estimate_.value_or(INFINITY), found.quick_estimate.seconds);
      result_.found.push_back(std::move(found));
      choices_.push_back(options[i].choice);
    }
  }

  /// The best layouts that may fit and recompute something, each once, with recompute left to planning.
  std::vector<Option> options_with_auto() const {
    std::vector<size_t> order(result_.found.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [this](size_t i) { return !result_.found[i].fit.may_fit(); });
    std::ranges::stable_sort(order, std::less<>(), [this](size_t i) {
      return std::pair(result_.found[i].fit.verdict(), result_.found[i].time.seconds());
    });
    std::vector<Option> options;
    for (const size_t i : order) {
      if (options.size() == options_.with_auto) break;
      if (choices_[i].recompute == recipe::RecomputeLevel::none) continue;
      Option option{.choice = choices_[i], .quick_estimate = result_.found[i].quick_estimate};
      option.choice.recompute = recipe::RecomputeLevel::automatic;
      const bool is_new = std::ranges::find(options, option.choice, &Option::choice) == options.end();
      if (is_new) options.push_back(std::move(option));
    }
    return options;
  }

  /// Settings with the levels that auto became: a launch, which takes what may fit, would decide for less.
  void set_levels(Found& found) const {
    for (const char letter : recipe::recompute_letters(recipe_.model)) {
      const std::string key = recipe::recompute_key(letter);
      const recipe::RecomputeLevel level = recipe::recompute_level(found.recipe, letter);
      std::erase_if(found.changes, [&key](const plan::Change& change) { return change.key == key; });
      if (level != recipe::recompute_level(recipe_, letter))
        found.changes.push_back({key, std::string(base::text_of(level))});
    }
  }

  void compile_with_auto() {
    const std::vector<Option> options = options_with_auto();
    std::vector<Outcome> outcomes = compile_all(options);
    for (size_t i = 0; i < options.size(); ++i) {
      if (outcomes[i].refused) {
        add_refused(options[i].choice, *outcomes[i].refused);
        continue;
      }
      Found& found = *outcomes[i].found;
      set_levels(found);
      const bool is_new = std::ranges::find(result_.found, found.recipe, &Found::recipe) == result_.found.end();
      if (is_new) result_.found.push_back(std::move(found));
    }
  }

  /// Whole, so that the recipe's own layout, of which nothing is to be changed, has a name too.
  plan::Changes settings_of(const LayoutChoice& c) const {
    plan::Changes settings = {{"layout.data_parallel", std::to_string(c.data)},
                              {"layout.expert_parallel", std::to_string(c.expert)},
                              {"layout.context_parallel", std::to_string(c.context)},
                              {"layout.tensor_parallel", std::to_string(c.tensor)},
                              {"layout.pipeline_parallel", std::to_string(c.pipeline)},
                              {"layout.zero", std::to_string(c.zero)},
                              {"train.batch", std::to_string(c.batch)},
                              {"train.micro_steps", std::to_string(c.micro_steps)}};
    for (const char letter : recipe::recompute_letters(recipe_.model))
      if (c.recompute) settings.push_back({recipe::recompute_key(letter), std::string(base::text_of(*c.recompute))});
    return plan::merged(std::move(settings), changes_of(c));
  }

  /// No gate foresaw it.
  void add_refused(const LayoutChoice& choice, const base::Error& error) {
    const std::string reason = fmt::format("refused while compiling: {}: {}: {}", base::code_name(error.code()),
                                           base::code_title(error.code()), error.problem().where);
    auto at = std::ranges::lower_bound(result_.refused, reason, std::less<>(), &Refused::reason);
    if (at == result_.refused.end() || at->reason != reason) at = result_.refused.insert(at, {.reason = reason});
    at->layouts.push_back({.settings = settings_of(choice), .got = error.problem().got});
  }

  const Recipe& recipe_;
  const Assumptions& assumptions_;
  const SearchOptions& options_;
  PlanLimits limits_;
  base::ThreadPool pool_;
  QuickEstimator estimator_;
  std::vector<Family> families_;
  int64_t tries_ = 0;
  int64_t compiled_ = 0;
  int64_t small_picks_ = 0;
  std::optional<double> fastest_estimate_;    // of what fits
  std::vector<RecomputeChoice> free_levels_;  // of letters that the recipe leaves to planning
  std::vector<LayoutChoice> choices_;         // behind each of result_.found, until the search ends
  LayoutSearch result_;
};

}  // namespace

double Found::tokens_per_second() const {
  return static_cast<double>(recipe.train.batch * recipe.train.micro_steps * recipe.train.sequence) / time.seconds();
}

Found compile_candidate(const Recipe& requested, const plan::Changes& changes, const Assumptions& assumptions) {
  Estimate estimate = make_estimate(with_changes(requested, changes), assumptions);
  const memory::MemoryPlan& worst = estimate.worst_memory();
  const Regime regime = regime_of(estimate);
  const ir::Mesh& mesh = estimate.plan().parallel.mesh;
  std::vector<AxisIsland> islands = islands_of(assumptions.slice, mesh);
  std::vector<Crossing> crossings = crossings_of(estimate.recipe(), assumptions.slice, mesh, estimate.time);
  return {.recipe = estimate.recipe(),
          .changes = changes,
          .layout = plan::layout_line(estimate.plan()),
          .fit = std::move(estimate.fit),
          .time = std::move(estimate.time),
          .regime = regime,
          .roles = memory::bytes_by_role(worst),
          .islands = std::move(islands),
          .crossings = std::move(crossings),
          .planned_from = estimate.shallow ? std::optional(estimate.shallow->depths) : std::nullopt};
}

std::vector<size_t> pareto_front(std::span<const FrontPoint> points) {
  std::vector<size_t> order;
  FitVerdict best = FitVerdict::does_not_fit;
  for (const FrontPoint& point : points) best = std::min(best, point.verdict);
  for (size_t i = 0; i < points.size(); ++i)
    if (points[i].verdict == best) order.push_back(i);
  std::ranges::stable_sort(order, std::less<>(),
                           [&](size_t i) { return std::pair(points[i].bytes, points[i].seconds); });
  std::vector<size_t> front;
  for (const size_t i : order)
    if (front.empty() || points[i].seconds < points[front.back()].seconds) front.push_back(i);
  return front;
}

LayoutSearch search_layouts(const Recipe& recipe, const Assumptions& assumptions, const SearchOptions& options) {
  Search search(recipe, assumptions, options);
  const bool is_long = recipe.train.sequence >= kLongSequence || recipe.layout.context_parallel > 1;
  const bool are_few = recipe.train.batch * recipe.train.micro_steps < assumptions.slice.devices();
  search.run(is_long || are_few ? SplitSequences::yes : SplitSequences::no);
  if (!is_long && !are_few && !search.has_some_that_may_fit()) search.run(SplitSequences::yes);
  return search.finish();
}

}  // namespace megacpp::fit
