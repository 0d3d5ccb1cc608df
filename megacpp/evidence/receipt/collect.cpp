// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/receipt/collect.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/core/ir/chip_name.h"
#include "megacpp/evidence/receipt/recipe_header.h"
#include "megacpp/evidence/receipt/steps.h"
#include "megacpp/hardware/fit/node_time.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/collective_report.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/memory/step_memory.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/launch/chip_memory.h"
#include "megacpp/run/launch/oom_report.h"
#include "megacpp/run/launch/regime.h"

namespace megacpp::receipt {
namespace {

constexpr const char* kFormula =
    "model FLOPs of a step / (steady seconds of a step x chips x peak). Model FLOPs: every op of the forward pass once "
    "and twice that for the backward pass (once where weights are frozen); of attention the pairs of tokens that its "
    "mask allows; recompute and the update are not counted";

const runtime::Backend& backend_of(const launch::Launch& launch) {
  return runtime::backend_named(launch.recipe().backend);
}

/// The backend's own settings: "xla_flags={...}".
std::vector<std::string> flags_of(const launch::Launch& launch) {
  const runtime::Backend& backend = backend_of(launch);
  std::vector<std::string> flags;
  if (!backend.settings_json) return flags;
  const base::Json settings = backend.settings_json(recipe::run_request(launch.recipe()));
  for (const auto& [name, value] : settings.items()) flags.push_back(name + "=" + base::to_text(value));
  return flags;
}

Header header_of(const launch::Launch& launch, const RunFacts& facts) {
  const fit::Estimate& estimate = launch.estimate();
  const catalog::Signature& signature = estimate.signature;
  Header header = recipe_header(launch.recipe());
  header.hardware = {.name = signature.hardware,
                     .topology = estimate.fit.hardware,
                     .chips = estimate.compiled.mesh.chips(),
                     .mesh = ir::to_string(estimate.compiled.mesh),
                     .processor = signature.build.processor};
  if (signature.build.threads > 0) header.hardware.threads = signature.build.threads;
  header.hardware.chip = launch.assumptions().slice.chip.name;
  int64_t parameters = 0;
  for (const blocks::Parameter& parameter : estimate.compiled.parameters)
    parameters += ir::num_elements(parameter.shape);
  header.model.parameters = parameters;
  header.model.hash = signature.model_hash;
  header.batch.data = facts.data;
  header.program.lane = fit::to_text(estimate.lane);
  header.program.recompute = recompute_text(launch.recipe(), estimate.requested());
  header.program.features = signature.features;
  header.program.flags = flags_of(launch);
  header.program.without = facts.without;
  header.program.watched = facts.watched;
  header.versions = {.code = signature.build.code_version, .platform = signature.build.platform};
  return header;
}

Mfu planned_mfu(const launch::Launch& launch) {
  const fit::Assumptions& assumptions = launch.assumptions();
  Mfu mfu{.model_flops = launch.estimate().compiled.model_flops, .formula = kFormula};
  const hw::Chip device = hw::device_of(assumptions.slice.chip);
  const fit::MatrixRate rate = fit::matrix_rate(device, ir::dtype_name(launch.recipe().train.precision));
  if (!assumptions.has_rates || rate.dtype.empty()) {
    mfu.peak = fmt::format("no rate of {} is known", assumptions.slice.name);
    return mfu;
  }
  mfu.peak_flops = rate.flops_per_second;
  const hw::Fact* const fact = device.fact("compute." + rate.dtype);
  mfu.peak = fmt::format("{} products of {}", rate.dtype, device.title.empty() ? device.name : device.title);
  if (fact != nullptr) mfu.peak += fmt::format(", {} {}", fact->source, fact->date);
  return mfu;
}

/// The same programs run otherwise in another number of processes.
std::string path_of(const launch::Launch& launch, const runtime::Executable& run) {
  const launch::Agreement& agreement = launch.agreement();
  if (agreement.is_alone()) return run.path();
  return fmt::format("{}, {} a process over {}", run.path(), base::counted(agreement.local_chips(), "chip"),
                     agreement.transport().properties.name);
}

std::vector<MemoryItem> items_of(const memory::MemoryPlan& plan) {
  const memory::MemoryTable table = memory::by_letter(plan);
  std::vector<MemoryItem> items;
  for (const memory::MemoryTable::Row& row : table.rows)
    for (size_t column = 0; column < table.roles.size(); ++column)
      if (row.bytes[column] > 0)
        items.push_back(
            {.role = std::string(ir::role_name(table.roles[column])), .family = row.name, .bytes = row.bytes[column]});
  return items;
}

std::vector<ChipGroup> planned_memory(const fit::Estimate& estimate) {
  std::vector<ChipGroup> groups;
  for (const fit::ChipGroup& group : estimate.fit.groups) {
    const memory::MemoryPlan& plan = estimate.compiled.stages[group.stage].memory;
    groups.push_back({.chip = group.chip,
                      .chips = group.chips,
                      .place = group.place,
                      .planned_bytes = group.planned,
                      .needed_bytes = group.needed(),
                      .state_bytes = plan.state_bytes,
                      .limit_bytes = group.limit.bytes,
                      .items = items_of(plan)});
  }
  return groups;
}

/// Absent where the backend's compiler places them: our program of several chips then has none.
std::optional<std::vector<Collective>> collectives_of(const compile::Compiled& compiled) {
  std::vector<Collective> collectives;
  for (const compile::CollectiveTotal& total : compile::collective_totals(compiled))
    collectives.push_back(
        {.stage = total.stage, .axes = total.axes, .kind = total.kind, .calls = total.calls, .bytes = total.bytes});
  if (collectives.empty() && compiled.mesh.chips() > 1) return std::nullopt;
  return collectives;
}

Ladder ladder_of(const launch::Launch& launch) {
  return {.rung = static_cast<int64_t>(launch.rung()),
          .changes = fit::to_text(launch.changes()),
          .changes_experiment = launch.changes_experiment(),
          .tried = launch::reductions_of(launch.attempts())};
}

Transfer transfer_of(const runtime::Transfers& transfers) {
  return {.count = transfers.count, .bytes = transfers.bytes};
}

DeviceCounters counters_of(const runtime::Counters& counters) {
  DeviceCounters read{.cache_hits = counters.cache_hits,
                      .executions = counters.executions,
                      .host_syncs = counters.host_syncs,
                      .host_to_device = transfer_of(counters.host_to_device),
                      .device_to_host = transfer_of(counters.device_to_host)};
  for (const auto& [cause, count] : counters.compiles) read.compiles.push_back({.what = cause, .count = count});
  return read;
}

std::string compile_word(const launch::Launch& launch, const runtime::Counters& counters) {
  if (!backend_of(launch).emits_stablehlo) return "own passes alone";
  return counters.compiles.empty() ? "cached" : "cold";
}

/// A warm-up and the saving of checkpoints are no part of a steady step, so `other` is made anew.
std::optional<Parts> parts_of(const std::optional<runtime::StepParts>& measured, const std::optional<Phase>& steady) {
  if (!measured || !steady) return std::nullopt;
  Parts parts{.arithmetic = measured->arithmetic,
              .memory = measured->memory,
              .links = measured->links,
              .bubble = measured->bubble};
  parts.other = std::max(0.0, steady->step_seconds() - (measured->seconds() - measured->other));
  return parts;
}

std::vector<ChipPeak> peaks_of(const launch::Trained& trained) {
  std::vector<ChipPeak> peaks;
  for (const launch::ChipReport& chip : trained.measures.chips)
    peaks.push_back({.chip = chip.chip,
                     .place = ir::chip_name(chip.chip, trained.started.compiled->mesh),
                     .planned_bytes = chip.memory.planned_peak_bytes,
                     .measured_bytes = chip.memory.measured_peak_bytes,
                     .limit_bytes = chip.memory.limit_bytes,
                     .planned_host_bytes = chip.memory.in(ir::Tier::host).planned_bytes,
                     .measured_host_bytes = chip.memory.in(ir::Tier::host).measured_bytes});
  return peaks;
}

Failure failure_of(const base::Error& error) {
  const base::Problem& problem = error.problem();
  Failure failure{.code = std::string(base::code_name(error.code())),
                  .where = problem.where,
                  .got = problem.got,
                  .wanted = problem.wanted,
                  .next = problem.next};
  const auto* const memory = dynamic_cast<const memory::OutOfMemory*>(&error);
  if (memory == nullptr) return failure;
  const memory::OomFacts& facts = memory->facts();
  failure.oom_class = memory::oom_class_name(facts.cls);
  failure.phase = facts.phase;
  failure.chip = facts.place;
  if (facts.step >= 0) failure.step = facts.step;
  failure.wanted_bytes = facts.wanted;
  failure.limit_bytes = facts.limit;
  failure.is_injected = facts.is_injected;
  return failure;
}

}  // namespace

std::vector<Fallback> fallbacks_of(const compile::Compiled& compiled) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const schedule::Fallback& fallback : compiled.fallbacks) ++counts[{fallback.op, fallback.reason}];
  std::vector<Fallback> fallbacks;
  for (const auto& [what, count] : counts)
    fallbacks.push_back({.op = what.first, .reason = what.second, .count = count});
  return fallbacks;
}

Receipt planned_receipt(const launch::Launch& launch, const RunFacts& facts) {
  const fit::Estimate& estimate = launch.estimate();
  Receipt receipt;
  receipt.header = header_of(launch, facts);
  receipt.recipe = recipe::print(estimate.requested());
  receipt.ending.requested_steps = launch.recipe().train.steps;
  receipt.times.compile_seconds = estimate.compiled.compile_seconds();
  receipt.times.verify_seconds = estimate.compiled.verify_seconds();
  if (estimate.time.seconds() > 0) receipt.times.predicted_step_seconds = estimate.time.seconds();
  receipt.mfu = planned_mfu(launch);
  receipt.memory.planned = planned_memory(estimate);
  receipt.memory.host = {.offloaded_bytes = estimate.fit.host_offloaded,
                         .snapshot_bytes = estimate.fit.host_snapshot,
                         .limit_bytes = estimate.fit.host_limit};
  // Where the backend has a compiler of its own, estimates are of other programs than those that run.
  if (!backend_of(launch).emits_stablehlo) {
    receipt.counters.fallbacks = fallbacks_of(estimate.compiled);
    receipt.collectives = collectives_of(estimate.compiled);
  }
  receipt.ladder = ladder_of(launch);
  receipt.lineage = lineage_record(launch.lineage());
  return receipt;
}

std::vector<FamilyMemory> memory_along_step(const launch::Launch& launch) {
  constexpr size_t kParts = 96;  // as many as a picture can show
  const fit::Estimate& estimate = launch.estimate();
  std::vector<const ir::Graph*> programs;
  for (const compile::Program& program : estimate.compiled.stages[estimate.fit.worst().stage].programs)
    programs.push_back(&program.graph);
  std::vector<FamilyMemory> families;
  for (memory::LetterMemory& letter : memory::memory_along_step(programs, fit::target_on(launch.assumptions()), kParts))
    families.push_back({.family = std::move(letter.letter), .bytes = std::move(letter.bytes)});
  return families;
}

Lineage lineage_record(const lineage::Lineage& found) {
  Lineage record{.lock_file = found.lock_file, .unread = found.unread};
  for (const lineage::Fact& fact : found.live) {
    const std::string* const documented = lineage::find_value(found.documented, fact.name);
    const bool is_here = fact.value != lineage::kNone;
    const bool drifted = std::ranges::find(found.drifts, fact.name, &lineage::Drift::name) != found.drifts.end();
    record.items.push_back({.name = fact.name,
                            .documented = documented == nullptr ? "" : *documented,
                            .live = is_here ? fact.value : "",
                            .state = !drifted  ? "ok"
                                     : is_here ? "drift"
                                               : "missing"});
  }
  return record;
}

void add_trained(Receipt& receipt, const launch::Launch& launch, const launch::Trained& trained) {
  const runtime::Executable& run = *trained.started.run;
  const compile::Compiled& compiled = *trained.started.compiled;
  const runtime::Counters& counters = trained.measures.counters;
  add_steps(receipt, trained.reports);
  receipt.header.program.path = path_of(launch, run);
  receipt.repeats = run.repeats();
  Times& times = receipt.times;
  times.compile_seconds = compiled.compile_seconds();
  times.verify_seconds = compiled.verify_seconds();
  times.backend_compile_seconds = counters.compile_seconds;
  times.compile = compile_word(launch, counters);
  times.saving_seconds = trained.blocked_seconds;
  times.parts = parts_of(launch::measured_parts(trained), times.steady);
  const fit::Regime regime = launch::regime_of(launch, trained);
  receipt.regime = {.name = std::string(fit::regime_name(regime.kind)), .because = regime.because};
  receipt.counters.devices = counters_of(counters);
  receipt.counters.fallbacks = fallbacks_of(compiled);
  receipt.memory.measured = peaks_of(trained);
  receipt.collectives = collectives_of(compiled);
  receipt.ending.kind = trained.was_stopped ? EndingKind::interrupted : EndingKind::finished;
}

void add_failure(Receipt& receipt, const std::exception& error) {
  Ending& ending = receipt.ending;
  ending.kind = EndingKind::failed;
  if (const auto* const known = dynamic_cast<const base::Error*>(&error)) {
    ending.failure = failure_of(*known);
    const bool is_of_memory = dynamic_cast<const memory::OutOfMemory*>(&error) != nullptr;
    if (is_of_memory || base::class_of(known->code()) == base::ErrorClass::does_not_fit)
      ending.kind = EndingKind::out_of_memory;
    return;
  }
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  if (is_memory) ending.kind = EndingKind::out_of_memory;
  ending.failure = Failure{.code = is_memory ? "E2005" : "E9001", .got = error.what()};
}

}  // namespace megacpp::receipt
