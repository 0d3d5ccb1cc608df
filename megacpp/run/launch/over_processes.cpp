// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/over_processes.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/environment.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/collectives/mpi/mpi_endpoint.h"
#include "megacpp/machine/collectives/mpi/mpi_launch.h"
#include "megacpp/machine/collectives/mpi/mpi_transport.h"
#include "megacpp/machine/collectives/placement.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/machine_identity.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/run/launch/build.h"
#include "megacpp/run/launch/run_inputs.h"

namespace megacpp::launch {

bool is_first_process() {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  return !launch || launch->process == 0;
}

void require_alone(const std::string& command, const std::string& next) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  MEGACPP_REQUIRE(!launch, E1007,
                  ({.where = command,
                    .got = "one of several processes, started by " + launch->launcher,
                    .wanted = "one process, which starts the trainings",
                    .next = next}));
}

collectives::WorldOptions world_of_start(int64_t chips, std::chrono::seconds limit) {
  return {.chips = chips, .wait_limit = collectives::start_limit(limit), .answer_limit = limit, .join_limit = limit};
}

void agree_on_command(std::vector<collectives::Field> own, std::chrono::seconds limit,
                      const std::function<void(const base::Error& error)>& on_late) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return;
  std::ranges::move(environment_fields(base::environment_variable), std::back_inserter(own));
  own.push_back(input_field("build", "build", code_version()));
  own.push_back(input_field("architecture", "architecture", runtime::machine_architecture()));
  collectives::start_mpi_within(*launch, limit, on_late);
  collectives::transport_of_launch().make(world_of_start(launch->processes, limit))->agree_same("command", own);
}

std::string from_first_process(std::string_view subject, const std::function<std::string()>& say) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return say();
  const std::chrono::seconds usual(recipe::Train().wait_limit);
  const std::unique_ptr<collectives::World> world =
      collectives::transport_of_launch().make(world_of_start(launch->processes, usual));
  std::string said;
  try {
    if (world->is_coordinator()) said = say();
  } catch (const std::exception& error) {
    world->abort(world->local_chips().front(), collectives::reason_of(error));
    throw;
  }
  return world->share(subject, said).front();
}

void on_all_processes(std::string_view subject, std::chrono::seconds limit, const std::function<void()>& body) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return body();
  const std::unique_ptr<collectives::World> world =
      collectives::transport_of_launch().make(world_of_start(launch->processes, limit));
  on_all_processes(*world, subject, body);
}

namespace {

/// Of several reasons; nothing: none has a code.
std::optional<base::Code> gravest_cause(const std::vector<std::string>& reasons) {
  std::optional<base::Code> gravest;
  for (const std::string& reason : reasons)
    if (const auto code = collectives::cause_in(reason); code && (!gravest || base::is_graver(*code, *gravest)))
      gravest = code;
  return gravest;
}

/// The error of this process, which ends as the gravest of all.
[[noreturn]] void rethrow_ending_as(const std::exception_ptr& own, std::optional<base::Code> cause) {
  try {
    std::rethrow_exception(own);
  } catch (const std::exception& error) {
    const base::Code code = collectives::code_of(error);
    if (!cause || !base::is_graver(*cause, code)) throw;
    const auto* const ours = dynamic_cast<const base::Error*>(&error);
    base::Problem problem = ours != nullptr ? ours->problem() : base::Problem{.got = error.what()};
    problem.cause = cause;
    base::raise(code, std::move(problem));
  }
}

}  // namespace

void on_all_processes(collectives::World& world, std::string_view subject, const std::function<void()>& body) {
  std::exception_ptr own;
  std::string reason;
  try {
    body();
  } catch (const base::Error& error) {
    own = std::current_exception();
    reason = fmt::format("{} {}: {}", base::code_name(error.code()), error.problem().where, error.problem().got);
  } catch (const std::exception& error) {
    own = std::current_exception();
    reason = collectives::reason_of(error);
  }
  const std::vector<std::string> reasons = world.share(subject, reason);
  const std::optional<base::Code> cause = gravest_cause(reasons);
  if (own) rethrow_ending_as(own, cause);
  for (size_t process = 0; process < reasons.size(); ++process) {
    if (reasons[process].empty()) continue;
    const std::string host = process < world.hosts().size() ? " on " + world.hosts()[process] : "";
    base::raise(base::Code::E3101, {.where = std::string(subject),
                                    .got = fmt::format("process {}{}: {}", process, host, reasons[process]),
                                    .wanted = "every process as this one, which has no problem with it",
                                    .next = "mend it on that host: all hosts need the same files at the same paths",
                                    .cause = cause});
  }
}

base::Decision joins_processes(const recipe::Recipe& recipe) {
  const runtime::Backend& backend = runtime::backend_named(recipe.backend);
  if (backend.joins_processes) return backend.joins_processes(recipe::run_request(recipe));
  const bool has_transport = std::ranges::count(backend.transports, std::string("mpi")) > 0;
  return has_transport ? base::Decision::yes() : base::Decision::no("it has all chips in one process");
}

void require_over_processes(const recipe::Recipe& recipe) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return;
  const base::Decision joins = joins_processes(recipe);
  // A backend that is asked joins them with some of its plugins.
  const bool depends_on_plugin = static_cast<bool>(runtime::backend_named(recipe.backend).joins_processes);
  const std::string next = fmt::format("set backend: cpu, {}or start megacpp alone",
                                       depends_on_plugin ? "take the cuda or tpu plugin (xla.plugin), " : "");
  MEGACPP_REQUIRE(
      static_cast<bool>(joins), E1505,
      ({.where = launch->launcher,
        .got = fmt::format("{} processes for backend {}: {}", launch->processes, recipe.backend, joins.reason()),
        .wanted = "a backend whose chips may be those of several processes",
        .next = next}));
  const int64_t chips = recipe::chips_of(recipe.layout), own = runtime::backend_named(recipe.backend).chips_of_process;
  MEGACPP_REQUIRE(
      own == 0 || launch->processes == 1 || chips == launch->processes * own, E1505,
      ({.where = launch->launcher,
        .got = fmt::format("{} processes for {} chips on backend {}", launch->processes, chips, recipe.backend),
        .wanted =
            fmt::format("{} in each process, or all in one", own == 1 ? "one chip" : fmt::format("{} chips", own)),
        .next = fmt::format("start {} processes, or one", chips / own)}));
  collectives::require_even_shares(*launch, chips);
}

collectives::Transport transport_for(const recipe::Recipe& recipe) {
  return collectives::transport_of_launch(
      recipe.layout.collectives == recipe::CollectiveSums::fast ? collectives::Sums::fast : collectives::Sums::exact);
}

std::vector<ProcessPlace> process_places(const ir::Mesh& mesh, const std::vector<std::string>& hosts) {
  std::vector<ProcessPlace> places;
  for (const std::string& host : hosts)
    places.push_back({.process = static_cast<int64_t>(places.size()), .host = host, .chips = {}});
  if (places.empty()) return places;
  const std::vector<int64_t> owners = collectives::owners_of({.chips = mesh.chips(),
                                                              .processes = static_cast<int64_t>(hosts.size()),
                                                              .order = collectives::dealing_order(mesh)});
  for (size_t chip = 0; chip < owners.size(); ++chip)
    places[static_cast<size_t>(owners[chip])].chips.push_back(static_cast<int64_t>(chip));
  return places;
}

std::string host_text(const std::vector<ProcessPlace>& places, int64_t chip) {
  for (const ProcessPlace& place : places)
    if (std::ranges::count(place.chips, chip) > 0) return fmt::format(" on {}, process {}", place.host, place.process);
  return "";
}

std::string hosts_text(const std::vector<ProcessPlace>& places) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> hosts;  // in the order of processes
  for (const ProcessPlace& place : places) {
    auto host = std::ranges::find(hosts, place.host, &std::pair<std::string, std::vector<int64_t>>::first);
    if (host == hosts.end()) host = hosts.emplace(hosts.end(), place.host, std::vector<int64_t>());
    host->second.insert(host->second.end(), place.chips.begin(), place.chips.end());
  }
  std::string text;
  for (auto& [host, chips] : hosts) {
    std::ranges::sort(chips);
    text += fmt::format("{}{}: chips {}", text.empty() ? "" : "; ", host, fmt::join(chips, ", "));
  }
  return text;
}

std::string processes_text(const ir::Mesh& mesh) {
  const std::optional<collectives::MpiLaunch> launch = collectives::mpi_launch();
  if (!launch) return "";
  const std::vector<int64_t> owners = collectives::owners_of(
      {.chips = mesh.chips(), .processes = launch->processes, .order = collectives::dealing_order(mesh)});
  return fmt::format("{}, started by {}; {}", launch->processes, launch->launcher,
                     collectives::placement_text(mesh, owners));
}

}  // namespace megacpp::launch
