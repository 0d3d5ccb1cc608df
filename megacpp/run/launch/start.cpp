// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/start.h"

#include <exception>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/run/train/confirm_start.h"
#include "megacpp/run/train/expert_shares.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/state_saver.h"

namespace megacpp::launch {

StartedRun start(const fit::Estimate& estimate, const StartOptions& options) {
  const recipe::Recipe& recipe = estimate.recipe();
  const runtime::Backend& backend = runtime::backend_that_runs(recipe);
  const recipe::RunRequest request = recipe::run_request(recipe);
  base::PartClock clock;
  const runtime::TargetMesh mesh =
      options.mesh ? *options.mesh : runtime::mesh_here(request, estimate.plan().parallel.mesh.chips());
  StartedRun started{.own_programs = {}, .compiled = &estimate.compiled, .run = {}, .parts = {}};
  if (!backend.estimates_with.empty() || !options.without.empty()) {
    started.own_programs = std::make_unique<compile::Compiled>(
        compile::compile_training(estimate.plan(), backend.target(request, mesh), {.without = options.without}));
    started.compiled = started.own_programs.get();
    clock.lap("compile");
  }
  if (options.before_load) options.before_load(*started.compiled);
  runtime::LoadOptions load = runtime::load_options(request, started.compiled->mesh.chips());
  load.profile = options.profile;
  load.trace_steps = options.trace_steps;
  load.transport = mesh.transport;
  const bool is_part = mesh.local_chips > 0 && mesh.local_chips < mesh.chips;
  if (is_part) load.threads = mesh.threads * static_cast<int>(mesh.local_chips);  // as it was agreed
  load.should_stop_in_step = options.should_stop_in_step;
  load.on_hang = options.on_hang;
  if (options.flight) load.flight = options.flight();
  if (options.saves && options.saves())
    load.snapshot_bytes = [compiled = started.compiled](const std::vector<int64_t>& chips) {
      return train::snapshot_bytes(*compiled, chips);
    };
  load.fetches = train::expert_fetches(*started.compiled);
  started.run = runtime::load_on(backend, request, *started.compiled, load);
  clock.add(started.run->load_parts());
  try {
    if (options.after_load) options.after_load(*started.run);
    train::confirm_start(estimate.plan(), *started.compiled, *started.run);
    const auto seed = static_cast<uint64_t>(recipe.train.seed);
    train::RunState state(*started.compiled, *started.run);
    if (options.fill_state) {
      state.initialise_adapters(seed);  // those that what fills the state does not have
      options.fill_state(*started.compiled, *started.run);
    } else {
      state.initialise_weights(seed);
    }
  } catch (const std::exception& error) {
    started.run->abort(collectives::reason_of(error));
    throw;
  }
  clock.lap("weights");
  started.parts = clock.added();
  return started;
}

}  // namespace megacpp::launch
