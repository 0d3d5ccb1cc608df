// SPDX-License-Identifier: Apache-2.0
// One launch: from the recipe as asked to one that runs. The catalog says first what it remembers; what does not fit on
// paper goes down the ladder before anything is compiled for a backend; an allocation that fails in the window (until
// the end of step 0) sends the whole mesh down the ladder again. How it went is written down for the next launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/fit/estimate.h"
#include "megacpp/fit/ladder.h"
#include "megacpp/launch/users_catalog.h"
#include "megacpp/memory/out_of_memory.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::launch {

class Launch {
 public:
  /// What is said goes to stderr. A launch goes on without a catalog. On the devices of a plugin the plan is for
  /// hardware.target; without one nothing limits it but the plugin itself.
  Launch(recipe::Recipe asked, const CatalogChoice& catalog);

  /// Paper, then what is remembered, then the ladder. memory::OutOfMemory (E2001, E1605) when nothing fits.
  void prepare();

  /// What to run now.
  const recipe::Recipe& recipe() const { return estimate_->recipe; }
  /// Without a time where only a plugin knows its devices.
  const fit::Estimate& estimate() const { return *estimate_; }
  /// The rung it stands on; 0: as asked.
  size_t rung() const { return rung_; }
  const plan::Changes& changes() const { return changes_; }
  bool changes_experiment() const { return fit::changes_experiment(changes_); }

  /// Whether an answer to this failure is in the ladder's window.
  static bool in_window(const memory::OutOfMemory& failure) { return failure.facts().step <= 0; }
  /// Takes the whole mesh to the next rung that needs less than what failed. Throws the failure where none does.
  void step_down(const memory::OutOfMemory& failure);

  /// How it ended, for the next launch.
  void record_failure(const memory::OutOfMemory& failure);
  void record_success(const runtime::Executable& run, std::optional<double> step_seconds);

 private:
  fit::Estimate make_estimate(const recipe::Recipe& recipe) const;
  fit::LadderPath walk_ladder(const fit::Ceiling& ceiling = {}) const;
  void start_where_remembered();
  void say_if_other_experiment() const;
  void take(fit::LadderPath path);
  [[noreturn]] void give_up(const fit::LadderPath& path, const memory::OutOfMemory& failure);

  recipe::Recipe asked_;
  UsersCatalog catalog_;
  fit::Assumptions assumptions_;  // the same for every rung: none changes how many chips there are
  catalog::Signature
      asked_signature_;  // as planned at first; with its faults: they teach nothing about launches without
  std::optional<fit::Estimate> estimate_;
  size_t rung_ = 0;
  plan::Changes changes_;
  std::vector<std::string> reasons_;  // of every rung that was tried now; none: as remembered
};

}  // namespace megacpp::launch
