// SPDX-License-Identifier: Apache-2.0
#include "megacpp/lineage/check.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/lineage/doctor.h"
#include "megacpp/lineage/lock_file.h"

namespace megacpp::lineage {
namespace {

std::vector<Probe> probes_at_launch() {
  std::vector<Probe> probes;
  for (const Probe& probe : all_probes())
    if (probe.pins == Pins::at_launch) probes.push_back(probe);
  return probes;
}

void compare_live(const Lock& lock, const Subject& subject, Lineage& lineage) {
  const std::vector<Probe> probes = probes_at_launch();
  Examination examination{.lock = &lock, .probes = probes};
  // Only of these: what the doctor alone asks is documented too.
  for (const Probe& probe : probes)
    if (std::ranges::find(examination.groups, probe.group) == examination.groups.end())
      examination.groups.push_back(probe.group);
  for (const Finding& finding : examine(subject, examination)) {
    lineage.live.push_back({.name = finding.name, .value = finding.live});
    if (finding.status == Status::ok) continue;
    lineage.drifts.push_back({.name = finding.name,
                              .documented = finding.documented.value_or(""),
                              .live = finding.live,
                              .fix = finding.fix});
  }
}

}  // namespace

Lineage check_lineage(const std::filesystem::path& recipe_file, const Subject& subject) {
  Lineage lineage;
  try {
    const std::optional<std::filesystem::path> file = find_lock(recipe_file, subject.surroundings);
    if (!file) return lineage;
    lineage.lock_file = file->string();
    const Lock lock = read_lock(*file);
    lineage.documented = lock.facts;
    compare_live(lock, subject, lineage);
  } catch (const base::Error& error) {
    if (lineage.lock_file.empty()) lineage.lock_file = error.problem().where;
    lineage.unread =
        fmt::format("{} {}: {}", base::code_name(error.code()), base::code_title(error.code()), error.problem().got);
  }
  return lineage;
}

}  // namespace megacpp::lineage
