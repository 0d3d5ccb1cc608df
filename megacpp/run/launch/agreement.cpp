// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/agreement.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "megacpp/hardware/fit/ladder.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/plugins/gpu_shares.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/run/launch/core_share.h"
#include "megacpp/run/launch/run_inputs.h"
#include "megacpp/run/launch/shared_facts.h"

namespace megacpp::launch {
namespace {

using collectives::Field;

// Where only devices know what they have, nothing here limits a plan.
ProcessOptions with_free_memory(ProcessOptions options, const recipe::Recipe& recipe) {
  if (!options.free_memory)
    options.free_memory = [recipe] {
      return runtime::backend_named(recipe.backend).free_bytes(recipe::run_request(recipe)).value_or(INT64_MAX);
    };
  return options;
}

// The part that the least has of the most where nobody need know: other programs come and go.
constexpr double kEvenMemory = 0.9;

// Of every process, in their order.
template <typename Fact>
std::vector<Fact> facts_of_all(collectives::World& world, std::string_view subject, const Fact& own) {
  std::vector<Fact> facts;
  for (const std::string& text : world.share(subject, fact_text(own))) facts.push_back(fact_of<Fact>(text));
  return facts;
}

void add_bytes(std::vector<Field>& fields, const compile::Compiled& compiled) {
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    fields.push_back(
        {fmt::format("bytes per chip of stage {}", stage), std::to_string(compiled.stages[stage].memory.total_bytes)});
}

}  // namespace

void require_devices_of_backend(const recipe::Recipe& recipe) {
  const runtime::Backend& backend = runtime::backend_named(recipe.backend);
  if (backend.require_devices) backend.require_devices(recipe::run_request(recipe));
}

Agreement::Agreement(const recipe::Recipe& requested, ProcessOptions options)
    : options_(with_free_memory(std::move(options), requested)),
      world_options_{.chips = recipe::chips_of(requested.layout),
                     .wait_limit = std::chrono::seconds(requested.train.wait_limit),
                     .join_limit = std::chrono::seconds(requested.train.wait_limit)},
      start_(options_.transport.make(
          world_of_start(world_options_.chips, std::chrono::seconds(requested.train.wait_limit)))),
      steps_(make_world()) {
  together([&] {
    std::vector<Field> fields = recipe_fields(requested);
    const catalog::Build build = options_.build(requested);
    fields.push_back(input_field("build", "build", build.code_version));
    fields.push_back(input_field("platform", "platform", build.platform));
    fields.push_back(input_field("architecture", "architecture", options_.architecture()));
    world().agree_same("recipe and build", fields);
  });
}

FreeMemory Agreement::free_memory() {
  std::vector<int64_t> bytes;  // by process
  for (const std::string& text : world().share("free memory", std::to_string(options_.free_memory())))
    bytes.push_back(std::stoll(text));
  const auto [least, most] = std::ranges::minmax_element(bytes);
  FreeMemory memory{.least = *least, .uneven = {}};
  if (static_cast<double>(*least) >= kEvenMemory * static_cast<double>(*most)) return memory;
  const auto name_of = [&](std::vector<int64_t>::const_iterator of) {
    const auto process = static_cast<size_t>(of - bytes.begin());
    return fmt::format("process {}{}", process, hosts().empty() ? "" : " on " + hosts()[process]);
  };
  memory.uneven = fmt::format("{} has {}, {} {}", name_of(least), memory::human_bytes(*least), name_of(most),
                              memory::human_bytes(*most));
  return memory;
}

std::vector<RunHost> Agreement::hosts_of_run() {
  const ProcessHost own{
      .machine = options_.machine(), .name = runtime::host_name(), .free_bytes = options_.free_host_memory()};
  return run_hosts(facts_of_all(world(), "machine", own));
}

int Agreement::core_share() {
  if (is_alone()) return runtime::available_threads();
  const std::vector<int> cores = runtime::available_cores();
  const CoreUser own{.machine = options_.machine(), .cores = {cores.begin(), cores.end()}};
  return launch::core_share(facts_of_all(world(), "cores", own), static_cast<size_t>(process()));
}

int64_t Agreement::gpu_sharers(const std::vector<std::string>& seen) {
  namespace plugins = runtime::plugins;
  const plugins::GpusOfProcess own{.machine = runtime::host_name(), .gpus = seen, .chips = local_chips()};
  std::vector<plugins::GpusOfProcess> processes;
  for (const std::string& text : world().share("GPUs of a process", plugins::to_text(own)))
    processes.push_back(plugins::gpus_of_process(text));
  int64_t most = 1;
  for (const plugins::GpuShare& share : plugins::gpu_shares(processes)) most = std::max(most, share.sharers);
  return most;
}

std::string Agreement::from_coordinator(std::string_view subject, const std::function<std::string()>& make) {
  return world().share(subject, is_coordinator() ? make() : "").front();
}

std::string Agreement::first_of(std::string_view subject, std::string_view own) {
  for (std::string& text : world().share(subject, own))
    if (!text.empty()) return std::move(text);
  return "";
}

std::unique_ptr<collectives::World> Agreement::make_world() const { return options_.transport.make(world_options_); }

// Part of every step: one process needs no words.
Status Agreement::agree_status(Status here) { return is_alone() ? here : agree_standing(here, "").status; }

// A digit, and the words.
Standing Agreement::agree_standing(Status here, std::string_view said) {
  Standing all{.status = here, .said = {}};
  const std::string own = std::to_string(static_cast<int>(here)).append(said);
  for (std::string& text : world().share("status of the run", own)) {
    all.status = std::max(all.status, static_cast<Status>(text.front() - '0'));
    all.said.push_back(text.substr(1));
  }
  is_starting_ = false;
  return all;
}

void Agreement::same_estimate(size_t rung, const plan::Changes& changes, const fit::Estimate& estimate) {
  is_starting_ = true;
  std::vector<Field> fields = recipe_fields(estimate.recipe());
  fields.push_back({"rung", std::to_string(rung)});
  fields.push_back({"changes", fit::to_text(changes)});
  add_bytes(fields, estimate.compiled);
  world().agree_same("plan", fields);
}

void Agreement::same_programs(const compile::Compiled& compiled, const std::vector<std::string>& without) {
  std::vector<Field> fields = {
      {"passes switched off", without.empty() ? "none" : fmt::format("{}", fmt::join(without, ", "))}};
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    for (size_t program = 0; program < compiled.stages[stage].programs.size(); ++program)
      fields.push_back({fmt::format("nodes of program {} of stage {}", program, stage),
                        std::to_string(compiled.stages[stage].programs[program].graph.nodes().size())});
  add_bytes(fields, compiled);
  world().agree_same("programs", fields);
}

void Agreement::abort(const std::string& reason) {
  for (collectives::World* const world : {start_.get(), steps_.get()})
    world->abort(world->local_chips().front(), reason);
}

}  // namespace megacpp::launch
