// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/grow.h"

#include <algorithm>
#include <map>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/recipe/validate.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr int64_t kTile = 128;  // tokens below which sequences are not told apart

plan::Changes changes_to(Grown what, int64_t value) {
  return {{what == Grown::batch ? "train.batch" : "train.sequence", std::to_string(value)}};
}

/// Whether the recipe may have that many; the refusal where not.
std::optional<base::Error> refusal(const Recipe& recipe, Grown what, int64_t value) {
  try {
    const Recipe changed = with_changes(recipe, changes_to(what, value));
    recipe::validate(changed, {});
    plan::check_layout(changed, plan::Adjustable::recipe);
    return std::nullopt;
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) != base::ErrorClass::user) throw;
    return error;
  }
}

/// The smallest number of tokens, at least a tile, all of whose multiples the layout and the model can cut. A prime
/// multiple that divides nothing stands for all.
int64_t sequence_unit(const Recipe& recipe) {
  constexpr int64_t kPrime = 101;
  const int64_t now = recipe.train.sequence;
  for (int64_t unit = std::min(now, kTile); unit < now; ++unit)
    if (now % unit == 0 && !refusal(recipe, Grown::sequence, unit) && !refusal(recipe, Grown::sequence, unit * kPrime))
      return unit;
  return now;
}

class Bisection {
 public:
  Bisection(const Recipe& recipe, const Assumptions& assumptions, Growth& growth,
            const std::function<void(const Growth&)>& progress)
      : recipe_(recipe), assumptions_(assumptions), growth_(growth), progress_(progress) {}

  void run() {
    if (const auto error = refusal(recipe_, growth_.what, growth_.unit)) throw *error;
    const int64_t most = largest(FitVerdict::close), sure = largest(FitVerdict::fits), above = most + 1;
    if (most == 0) return;
    growth_.best = tried_.at(sure > 0 ? sure : most);
    if (sure > 0 && most > sure) growth_.largest_close = tried_.at(most);
    if (tried_.contains(above)) growth_.next = tried_.at(above);
    if (const auto error = refusal(recipe_, growth_.what, above * growth_.unit))
      growth_.why = error->problem().where + ": " + error->problem().got + ", " + error->problem().wanted;
  }

 private:
  /// The largest multiple that is no worse; 0: none.
  int64_t largest(FitVerdict verdict) {
    const auto holds = [this, verdict](int64_t multiple) { return verdict_of(multiple) <= verdict; };
    if (!holds(1)) return 0;
    int64_t below = 1, above = 2;
    while (holds(above)) below = std::exchange(above, 2 * above);
    while (above - below > 1) {
      const int64_t middle = below + (above - below) / 2;
      (holds(middle) ? below : above) = middle;
    }
    return below;
  }

  /// Each is planned once.
  FitVerdict verdict_of(int64_t multiple) {
    if (const auto known = tried_.find(multiple); known != tried_.end())
      return growth_.tried[known->second].fit.verdict();
    if (refusal(recipe_, growth_.what, multiple * growth_.unit)) return FitVerdict::does_not_fit;
    growth_.tried.push_back(
        compile_candidate(recipe_, changes_to(growth_.what, multiple * growth_.unit), assumptions_));
    tried_[multiple] = growth_.tried.size() - 1;
    if (progress_) progress_(growth_);
    return growth_.tried.back().fit.verdict();
  }

  const Recipe& recipe_;
  const Assumptions& assumptions_;
  Growth& growth_;
  const std::function<void(const Growth&)>& progress_;
  std::map<int64_t, size_t> tried_;  // by multiple
};

}  // namespace

Growth grow(const Recipe& recipe, Grown what, const Assumptions& assumptions,
            const std::function<void(const Growth&)>& progress) {
  const bool is_batch = what == Grown::batch;
  Growth growth{.what = what,
                .unit = is_batch ? recipe.layout.data_parallel * recipe.layout.expert_parallel : sequence_unit(recipe),
                .tried = {},
                .best = {},
                .largest_close = {},
                .next = {},
                .why = {}};
  Bisection(recipe, assumptions, growth, progress).run();
  return growth;
}

}  // namespace megacpp::fit
