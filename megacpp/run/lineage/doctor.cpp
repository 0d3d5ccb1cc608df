// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/doctor.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/plugins/plugin_fetch.h"

namespace megacpp::lineage {
namespace {

void require_groups(const std::vector<std::string>& wanted, const std::vector<Probe>& probes) {
  std::vector<std::string> known;
  for (const Probe& probe : probes)
    if (std::ranges::find(known, probe.group) == known.end()) known.push_back(probe.group);
  for (const std::string& group : wanted)
    MEGACPP_REQUIRE(std::ranges::find(known, group) != known.end(), E1007,
                    {.where = "--only",
                     .got = "'" + group + "'",
                     .wanted = "a group of probes",
                     .next = base::did_you_mean(group, known, "megacpp doctor without it shows the groups")});
}

Finding failed(const Probe& probe, const std::string& got, const std::string& fix) {
  return {.name = probe.name, .group = probe.group, .status = Status::missing, .live = got, .fix = fix};
}

Finding ask(const Probe& probe, const Subject& subject) {
  try {
    return {.name = probe.name, .group = probe.group, .live = answer_of(probe, subject)};
  } catch (const base::Error& error) {
    const base::Problem& problem = error.problem();
    return failed(probe, fmt::format("{} {}: {}", base::code_name(error.code()), problem.where, problem.got),
                  problem.next);
  } catch (const std::bad_alloc&) {
    return failed(probe, "no memory to ask", "free memory, or raise the process's limits (ulimit -v)");
  }
}

/// Against what the lock file documents; one that has no such fact was written before there was this probe.
void compare(const Probe& probe, const Lock& lock, Finding& finding) {
  if (probe.pins == Pins::nothing) return;
  const std::string* const documented = find_value(lock.facts, probe.name);
  if (documented == nullptr) return;
  finding.documented = *documented;
  if (finding.status != Status::ok || finding.live == *documented) return;
  finding.status = finding.live == kNone ? Status::missing : Status::drift;
  finding.fix = probe.fix(*documented);
}

void add_unknown(const Lock& lock, const std::vector<Probe>& probes, std::vector<Finding>& findings) {
  for (const Fact& fact : lock.facts)
    if (std::ranges::find(probes, fact.name, &Probe::name) == probes.end())
      findings.push_back({.name = fact.name,
                          .group = "lock file",
                          .status = Status::missing,
                          .live = "no probe of this name",
                          .documented = fact.value,
                          .fix = "write the lock file again with this megacpp: megacpp doctor --write FILE"});
}

}  // namespace

std::vector<Finding> examine(const Subject& subject, const Examination& examination) {
  require_groups(examination.groups, examination.probes);
  const bool is_whole = examination.groups.empty();
  std::vector<Finding> findings;
  for (const Probe& probe : examination.probes) {
    if (!is_whole && std::ranges::find(examination.groups, probe.group) == examination.groups.end()) continue;
    examination.progress(probe.name);
    Finding finding = ask(probe, subject);
    if (examination.lock != nullptr) compare(probe, *examination.lock, finding);
    findings.push_back(std::move(finding));
  }
  if (is_whole && examination.lock != nullptr) add_unknown(*examination.lock, examination.probes, findings);
  return findings;
}

Lock lock_of(const std::vector<Finding>& findings, const std::vector<Probe>& probes) {
  Lock lock{.architecture = runtime::plugins::this_machine(), .facts = {}};
  for (const Probe& probe : probes) {
    if (probe.pins == Pins::nothing) continue;
    const auto at = std::ranges::find(findings, probe.name, &Finding::name);
    MEGACPP_CHECK(at != findings.end()) << "no finding of " << probe.name;
    if (at->status == Status::missing) throw *finding_error({*at});
    lock.facts.push_back({.name = probe.name, .value = at->live});
  }
  return lock;
}

std::optional<base::Error> finding_error(const std::vector<Finding>& findings) {
  const auto is_bad = [](const Finding& finding) { return finding.status != Status::ok; };
  const auto first = std::ranges::find_if(findings, is_bad);
  if (first == findings.end()) return std::nullopt;
  const auto bad = std::ranges::count_if(findings, is_bad);
  return base::Error(
      base::Code::E3401,
      {.where = fmt::format("{} ({})", first->name, base::text_of(first->status)),
       .got = fmt::format("{}{}", first->live,
                          bad > 1 ? fmt::format("; {} more of {} are not ok", bad - 1, findings.size()) : ""),
       .wanted = first->documented ? *first->documented + ", as the lock file has it" : "a probe that succeeds",
       .next = first->fix});
}

}  // namespace megacpp::lineage
