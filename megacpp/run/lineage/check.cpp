// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/check.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "megacpp/run/lineage/doctor.h"
#include "megacpp/run/lineage/lock_file.h"

namespace megacpp::lineage {
namespace {

/// Those of plugins only for a lock file: reading a library takes a while, and a run says itself what it has loaded.
std::vector<Probe> probes_at_launch(bool with_plugins) {
  std::vector<Probe> probes;
  for (const Probe& probe : all_probes())
    if (probe.pins == Pins::at_launch && (with_plugins || probe.group != "plugins")) probes.push_back(probe);
  return probes;
}

/// Without a lock nothing drifts: what is here is only noted.
void add_live(const Lock* lock, const Subject& subject, Lineage& lineage) {
  const std::vector<Probe> probes = probes_at_launch(lock != nullptr);
  Examination examination{.lock = lock, .probes = probes};
  // Only of these: what the doctor alone asks is documented too.
  for (const Probe& probe : probes)
    if (std::ranges::find(examination.groups, probe.group) == examination.groups.end())
      examination.groups.push_back(probe.group);
  for (const Finding& finding : examine(subject, examination)) {
    lineage.live.push_back({.name = finding.name, .value = finding.live});
    if (lock == nullptr || finding.status == Status::ok) continue;
    lineage.drifts.push_back({.name = finding.name,
                              .documented = finding.documented.value_or(""),
                              .live = finding.live,
                              .fix = finding.fix});
  }
}

}  // namespace

Lineage check_lineage(const std::filesystem::path& recipe_file, const Subject& subject) {
  Lineage lineage;
  std::optional<Lock> lock;
  try {
    if (const std::optional<std::filesystem::path> file = find_lock(recipe_file, subject.surroundings)) {
      lineage.lock_file = file->string();
      lock = read_lock(*file);
      lineage.documented = lock->facts;
    }
  } catch (const base::Error& error) {
    if (lineage.lock_file.empty()) lineage.lock_file = error.problem().where;
    lineage.unread =
        fmt::format("{} {}: {}", base::code_name(error.code()), base::code_title(error.code()), error.problem().got);
  }
  add_live(lock ? &*lock : nullptr, subject, lineage);
  return lineage;
}

}  // namespace megacpp::lineage
