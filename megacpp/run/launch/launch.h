// SPDX-License-Identifier: Apache-2.0
// One launch: from the recipe as requested to one that runs. The catalog is asked first; what does not fit by estimate
// goes down the ladder before anything is compiled for a backend; an allocation that fails in the ladder's window sends
// the whole mesh down the ladder again. Outcomes are recorded for the next launch. Processes of one run decide together
// (agreement.h), and the coordinator's catalog is that of all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/ladder.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/launch/agreement.h"
#include "megacpp/run/launch/chip_memory.h"
#include "megacpp/run/launch/log.h"
#include "megacpp/run/launch/shared_facts.h"
#include "megacpp/run/launch/users_catalog.h"
#include "megacpp/run/lineage/lineage.h"

namespace megacpp::launch {

class Launch {
 public:
  /// A launch goes on without a catalog. The plan is for the hardware that the backend finds: on the devices of a
  /// plugin hardware.target, or the chip that they call themselves, without either no limit is known; on this machine
  /// the least free memory of all processes is it.
  Launch(recipe::Recipe requested, const CatalogChoice& catalog, Log log = no_log, ProcessOptions processes = {});

  /// Compares this machine with the lock file of the recipe's file, or else of the user; what drifted is logged, kept
  /// for the record and ends nothing. Without such a file nothing is asked. Before prepare().
  void check_lineage(const std::filesystem::path& recipe_file);
  const lineage::Lineage& lineage() const { return lineage_; }

  /// Estimate, then what is remembered, then the ladder. memory::OutOfMemory (E2001, E1605) when nothing fits.
  void prepare();

  /// Whether there is an estimate: also where prepare() ended because nothing fits.
  bool is_planned() const { return estimate_.has_value(); }
  /// What to run now.
  const recipe::Recipe& recipe() const { return estimate_->recipe(); }
  /// Without a time where only a plugin knows its devices.
  const fit::Estimate& estimate() const { return *estimate_; }
  /// The rung it runs at; 0: as requested.
  size_t rung() const { return rung_; }
  const plan::Changes& changes() const { return changes_; }
  /// Every reduction that was tried, in order.
  const std::vector<fit::Attempt>& attempts() const { return attempts_; }
  /// The same for every rung.
  const fit::Assumptions& assumptions() const { return assumptions_; }
  bool changes_experiment() const { return fit::changes_experiment(changes_); }

  /// Takes the whole mesh to the next rung that needs less than what failed. Gives up where none does. Processes whose
  /// own memory sufficed follow_down().
  void step_down(const memory::OutOfMemory& failure);
  void follow_down();
  /// Ends the run on all processes: the report is logged, recorded, and the failure thrown. Processes whose own memory
  /// sufficed follow_end(), which throws E3101.
  [[noreturn]] void end_with(const memory::OutOfMemory& failure);
  [[noreturn]] void follow_end();
  Agreement& agreement() { return agreement_; }
  const Agreement& agreement() const { return agreement_; }
  void log(const Line& line) const { log_(line); }
  /// What all programs of the launch are compiled for, the same on every process.
  const runtime::TargetMesh& mesh() const { return mesh_; }

  /// Once step 0 has ended on all processes: where the next launch starts, however this one ends.
  void record_start();
  /// `worst`: of all chips of the run.
  void record_success(const ChipReport& worst, std::optional<double> step_seconds);

 private:
  /// Memory that ran out, on this process or on another whose report this one was given.
  struct Failure {
    const memory::OutOfMemory& error;
    catalog::OomReport report;
  };

  fit::Assumptions agreed_assumptions();
  std::optional<catalog::Remembered> remembered_start();
  void start_where_remembered();
  void fit_by_estimate();
  /// `own`: as for share_report().
  void descend(const memory::OutOfMemory* own);
  void take_remembered(const RememberedStart& remembered);
  void log_if_other_experiment() const;
  /// That of the first process whose memory ran out; `own`: what failed on this one, if it did.
  catalog::OomReport share_report(const memory::OutOfMemory* own);
  void drop_fired_fault(const memory::OomFacts& failure);
  void go_down(const Failure& failure, const fit::Ceiling& ceiling);
  [[noreturn]] void give_up(const Failure& failure, const std::string& ending);
  /// The whole report: with every reduction that was tried, and how it ended.
  catalog::OomReport record_failure(catalog::OomReport report, const std::string& ending);

  recipe::Recipe requested_;
  Log log_;
  Agreement agreement_;
  UsersCatalog catalog_;                    // the coordinator's; none on other processes
  runtime::TargetMesh mesh_;                // the same for every rung: none changes how many chips there are
  fit::Assumptions assumptions_;            // for every rung
  catalog::Signature requested_signature_;  // as first planned; with its faults: they teach nothing about others
  lineage::Lineage lineage_;
  std::optional<fit::Estimate> estimate_;
  size_t rung_ = 0;
  plan::Changes changes_;
  std::vector<fit::Attempt> attempts_;  // every reduction tried now; none: as requested or as remembered
};

}  // namespace megacpp::launch
