// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/host_pool.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <future>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/core/base/process.h"
#include "megacpp/hardware/fit/search.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/run_hosts.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::launch {
namespace {

constexpr const char* kProcesses = "{processes}";
constexpr const char* kHosts = "{hosts}";
constexpr const char* kHost = "{host}";
constexpr size_t kAskedAtOnce = 64;  // hosts: each is a program that runs
constexpr size_t kReasonLength = 200;
constexpr int64_t kLayoutTries = 24;  // the training waits for them

[[noreturn]] void refuse_hosts(const std::string& got) {
  base::raise(base::Code::E1007, {.where = "--hosts",
                                  .got = got,
                                  .wanted = "names of hosts with a number of processes each, every host once",
                                  .next = "for example: --hosts node7:4,node8:4"});
}

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_' || c == '@';
}

HostSlots host_in(const std::string& text) {
  const size_t colon = text.find(':');
  HostSlots host{.name = text.substr(0, colon)};
  if (host.name.empty()) refuse_hosts(text.empty() ? "no name" : text);
  const bool is_name = std::ranges::all_of(host.name, is_of_name) && host.name.front() != '-';  // that is a flag
  if (!is_name) refuse_hosts(text);
  if (colon == std::string::npos) return host;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, host.processes);
  if (error != std::errc() || stop != end || host.processes < 1) refuse_hosts(text);
  return host;
}

std::string replaced(std::string word, const std::string& mark, const std::string& value) {
  for (size_t at = word.find(mark); at != std::string::npos; at = word.find(mark, at + value.size()))
    word.replace(at, mark.size(), value);
  return word;
}

std::string line_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// The last line that says something.
std::string last_line(const std::string& output) {
  std::istringstream stream(output);
  std::string last;
  for (std::string line; std::getline(stream, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  while (!last.empty() && std::isspace(static_cast<unsigned char>(last.back())) != 0) last.pop_back();
  return last.substr(0, kReasonLength);
}

// Like this machine, with neighbouring chips each; the last may have fewer.
std::vector<RunHost> hosts_alike(const LayoutWish& wish) {
  std::vector<RunHost> hosts;
  for (int64_t chip = 0; chip < wish.chips; ++chip) {
    if (chip % wish.chips_of_host == 0)
      hosts.push_back({.name = "", .processes = {}, .free_bytes = base::available_memory_bytes()});
    hosts.back().processes.push_back(chip);
  }
  return hosts;
}

fit::Assumptions assumptions_of(const LayoutWish& wish) {
  const runtime::Backend& backend = runtime::backend_named(wish.recipe.backend);
  recipe::RunRequest request = recipe::run_request(wish.recipe);
  request.chips = wish.chips;  // how they are used is what is looked for
  runtime::Machine machine;
  machine.free_bytes = backend.free_bytes(request).value_or(INT64_MAX);
  machine.local_chips = wish.chips_of_host;
  if (backend.device_name) machine.device_name = backend.device_name(request);
  runtime::FoundHardware hardware = backend.find_hardware(request, machine);
  runtime::TargetMesh mesh;
  mesh.chips = wish.chips;
  mesh.threads = runtime::threads_per_chip(runtime::threads_for(request), wish.chips_of_host);
  UsersCatalog none({.none = true}, catalog::Access::read);
  fit::Assumptions assumptions = assumptions_for(wish.recipe, std::move(hardware), none, mesh);
  assumptions.hosts = planned_hosts(hosts_alike(wish));
  return assumptions;
}

}  // namespace

std::vector<HostSlots> hosts_in(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::set<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    hosts.push_back(host_in(text.substr(begin, end - begin)));
    if (!names.insert(hosts.back().name).second) refuse_hosts(hosts.back().name + " twice");
    begin = end + 1;
  }
  return hosts;
}

std::string to_text(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", host.name, host.processes);
  return text;
}

int64_t processes_on(const std::vector<HostSlots>& hosts) {
  int64_t processes = 0;
  for (const HostSlots& host : hosts) processes += host.processes;
  return processes;
}

std::vector<std::string> launcher_on(const std::vector<HostSlots>& hosts, const std::vector<std::string>& launcher) {
  std::vector<std::string> words;
  for (const std::string& word : launcher)
    words.push_back(replaced(replaced(word, kProcesses, std::to_string(processes_on(hosts))), kHosts, to_text(hosts)));
  for (const std::string& word : words)
    MEGACPP_REQUIRE(hosts.empty() || word.find_first_of("{}") == std::string::npos, E1007,
                    ({.where = "--launcher",
                      .got = word,
                      .wanted = fmt::format("{} and {}, and nothing else in braces", kProcesses, kHosts),
                      .next = "for example: --launcher 'mpirun -n {processes} --host {hosts}'"}));
  const bool depends_on_them = words != launcher;
  MEGACPP_REQUIRE(depends_on_them || hosts.empty(), E1007,
                  ({.where = "--launcher",
                    .got = fmt::format("{}, beside --hosts", launcher.empty() ? "none" : line_of(launcher)),
                    .wanted = fmt::format("{} or {} in it, which stand for those that answer", kProcesses, kHosts),
                    .next = "for example: --launcher 'mpirun -n {processes} --host {hosts}'"}));
  MEGACPP_REQUIRE(
      !depends_on_them || !hosts.empty(), E1007,
      ({.where = "--launcher",
        .got = line_of(launcher) + ", without --hosts",
        .wanted = fmt::format("numbers and names in it, or --hosts, for which {} and {} stand", kProcesses, kHosts),
        .next = "for example: --hosts node7:4,node8:4"}));
  return words;
}

Probe probe_of(const std::vector<std::string>& words) {
  const bool names_it =
      std::ranges::any_of(words, [](const std::string& word) { return word.find(kHost) != std::string::npos; });
  MEGACPP_REQUIRE(names_it, E1007,
                  ({.where = "--probe",
                    .got = words.empty() ? "no words" : line_of(words),
                    .wanted = fmt::format("a command with {}, which stands for the host that is asked", kHost),
                    .next = "for example: --probe 'ping -c 1 -W 2 {host}'"}));
  return {.words = words};
}

base::Decision ask_host(const Probe& probe, const std::string& host) {
  base::ProgramRun run{.words = {}, .interrupts = base::Interrupts::caller, .kill_after = std::chrono::seconds(1)};
  for (const std::string& word : probe.words) run.words.push_back(replaced(word, kHost, host));
  const auto begin = std::chrono::steady_clock::now();
  bool was_late = false;
  run.is_overdue = [&](base::Children) {
    was_late = std::chrono::steady_clock::now() - begin >= probe.limit;
    return was_late || probe.should_stop();
  };
  const base::ProgramEnd end = base::run_program(run);
  MEGACPP_REQUIRE(end.was_started, E1007,
                  {.where = "--probe",
                   .got = end.output,
                   .wanted = "a program that says whether a host can be used",
                   .next = "install it, or give another: --probe 'ping -c 1 -W 2 {host}'"});
  if (was_late)
    return base::Decision::no(
        fmt::format("nothing for {} s", std::chrono::duration_cast<std::chrono::seconds>(probe.limit).count()));
  if (end.status == 0) return base::Decision::yes();
  const std::string said = last_line(end.output);
  return base::Decision::no(said.empty() ? fmt::format("the probe ended with status {}", end.status) : said);
}

std::vector<base::Decision> HostPool::ask_all() const {
  std::vector<base::Decision> answered(hosts.size(), base::Decision::yes());
  std::atomic<size_t> next = 0;
  const auto ask = [&] {
    for (size_t i = next++; i < hosts.size(); i = next++) answered[i] = answers(hosts[i].name);
  };
  std::vector<std::future<void>> asking;
  for (size_t i = 0; i < std::min(kAskedAtOnce, hosts.size()); ++i)
    asking.push_back(std::async(std::launch::async, ask));
  for (std::future<void>& each : asking) each.get();
  return answered;
}

plan::Changes best_layout(const LayoutWish& wish) {
  fit::SearchOptions options;
  options.tries = kLayoutTries;
  options.threads = runtime::available_threads();
  const fit::LayoutSearch search = fit::search_layouts(wish.recipe, assumptions_of(wish), options);
  MEGACPP_REQUIRE(search.may_fit(), E1401,
                  ({.where = wish.recipe.name,
                    .got = fmt::format("{} chips, on which {}", wish.chips,
                                       search.found.empty() ? "no layout is legal" : "no layout fits"),
                    .wanted = "a layout with the global batch of the recipe",
                    .next = "see why: megacpp fit; bring a host back, or lower what the recipe needs"}));
  return search.found.front().changes;
}

}  // namespace megacpp::launch
