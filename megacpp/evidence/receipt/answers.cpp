// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/answers.h"

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/human_seconds.h"

namespace megacpp::receipt {
namespace {

using base::human_seconds;

std::string topology_answer(const Receipt& receipt) {
  const Hardware& hardware = receipt.header.hardware;
  if (hardware.topology.empty() || !hardware.chips) return "Not known: the run left no plan.";
  const std::string regime =
      receipt.regime.name.empty() ? "" : fmt::format(" Regime: {} ({}).", receipt.regime.name, receipt.regime.because);
  return fmt::format("{}: {} chip{}, mesh {}, {}.{}", hardware.topology, *hardware.chips,
                     *hardware.chips == 1 ? "" : "s", hardware.mesh, receipt.header.program.layout, regime);
}

std::string compile_answer(const Receipt& receipt) {
  const Times& times = receipt.times;
  const int64_t steps = receipt.ending.steps - receipt.ending.first_step;
  if (!times.first) return steps > 0 ? "Not known: the log has no times of steps." : "Neither: no step was made.";
  const double first = times.first->step_seconds();
  std::string text = times.compile.empty() ? "Compiling: not known. " : fmt::format("Compiling: {}. ", times.compile);
  if (!times.steady) {
    const bool is_timed = steps == times.first->steps + (times.warm_up ? times.warm_up->steps : 0);
    return text + fmt::format("Cold: the first step took {}, and {}.", human_seconds(first),
                              is_timed ? "no steady one followed" : "the times of those that followed are not known");
  }
  return text + fmt::format("Amortised: the figures are of {} steps after {} of warm-up, {} each; the first took {}.",
                            times.steady->steps, times.warm_up ? times.warm_up->steps : 0,
                            human_seconds(times.steady->step_seconds()), human_seconds(first));
}

std::string workload_answer(const Receipt& receipt) {
  const Model& model = receipt.header.model;
  const BatchShape& batch = receipt.header.batch;
  return fmt::format("{} a sequence, {} x {} a step, of {}, a {} model (pattern {}, depth {}).",
                     base::counted(batch.sequence, "token"), batch.micro_steps, base::counted(batch.batch, "sequence"),
                     model.name, model.family, model.pattern, model.depth);
}

std::string path_answer(const Receipt& receipt) {
  if (receipt.header.versions.code.empty()) return "Not known: the run left no plan.";
  const Counters& counters = receipt.counters;
  const std::string path =
      receipt.header.program.path.empty() ? receipt.header.program.backend : receipt.header.program.path;
  if (!counters.fallbacks.empty())
    return fmt::format("No: {} of ops ran as their parts on {}.", base::counted(std::ssize(counters.fallbacks), "kind"),
                       path);
  if (!counters.steady) return fmt::format("Not known: there was no steady window on {}. No op fell back.", path);
  if (counters.steady->programs_made == 0 && counters.steady->host_syncs == 0)
    return fmt::format("Yes: on {}, without fallback, compile or host sync in the steady window.", path);
  return fmt::format("No: {} made and {} in the steady window, on {}.",
                     base::counted(counters.steady->programs_made, "program"),
                     base::counted(counters.steady->host_syncs, "host sync"), path);
}

std::string target_answer(const Receipt& receipt) {
  const Ladder& ladder = receipt.ladder;
  const std::string shape = ladder.rung == 0
                                ? "This run has the requested shape"
                                : fmt::format("This run has another shape than requested ({})", ladder.changes);
  return shape + "; whether a gain holds on the target shape takes a second run: megacpp compare --target.";
}

}  // namespace

const std::vector<Question>& five_questions() {
  static const std::vector<Question> questions = {
      {"topology", "Which topology?", &Answers::topology},
      {"compile", "Was compiling amortised, or is it cold?", &Answers::compile},
      {"workload", "Which sequence length and workload family?", &Answers::workload},
      {"path", "Did it stay on the intended path, without fallback?", &Answers::path},
      {"target", "Did a gain survive on the target shape?", &Answers::target},
  };
  return questions;
}

Answers answers_of(const Receipt& receipt) {
  return {.topology = topology_answer(receipt),
          .compile = compile_answer(receipt),
          .workload = workload_answer(receipt),
          .path = path_answer(receipt),
          .target = target_answer(receipt)};
}

}  // namespace megacpp::receipt
