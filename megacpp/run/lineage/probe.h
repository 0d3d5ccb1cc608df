// SPDX-License-Identifier: Apache-2.0
// One record a probe: what it asks of this machine, whether a lock file pins the answer, and what to do where it is not
// as it should be. To add one: a record in the file of its group in probes/; to add a group: a file there and a line in
// probe_list.inc. What may crash or hang is asked in a child process with a time limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/plugins/plugin_places.h"
#include "megacpp/run/lineage/lineage.h"

namespace megacpp::lineage {

/// What probes ask about beside the machine itself.
struct Subject {
  std::string code_version = {};                              // of this program
  std::filesystem::path runs = {};                            // the folder that runs are left in
  std::optional<runtime::plugins::PluginChoice> plugin = {};  // that a recipe names; the others are searched for
  runtime::plugins::Surroundings surroundings = runtime::plugins::Surroundings::current();
};

/// What becomes of the answer.
enum class Pins : uint8_t {
  at_launch,  // it stands in lock files, and launches compare it: it costs no time
  by_doctor,  // it stands there too, and only the doctor takes the time to ask again
  nothing,    // it is of the moment: whether something works here and now
};

struct Probe {
  std::string name;   // "sqlite", "plugin.cpu.build"
  std::string group;  // "libraries"
  Pins pins = Pins::nothing;
  /// Nothing: it cannot hang. Otherwise asked in a child process, which is killed then.
  std::optional<std::chrono::milliseconds> time_limit = {};
  /// The answer in a few words; kNone for what is not here and need not be. Raises where something that runs need does
  /// not work.
  std::function<std::string(const Subject&)> ask;
  /// What to do where a lock file documents another answer.
  std::function<std::string(const std::string& documented)> fix = {};
};

/// In the order of probe_list.inc.
const std::vector<Probe>& all_probes();
/// The names of the groups, in that order.
std::vector<std::string> probe_groups();

#define MEGACPP_PROBE_GROUP(name) std::vector<Probe> name##_probes();
#include "megacpp/run/lineage/probe_list.inc"
#undef MEGACPP_PROBE_GROUP

/// The answer, from a child process where the record wants one. Whatever the probe raises is raised here; E3202 for one
/// that crashed or did not end in time.
std::string answer_of(const Probe& probe, const Subject& subject);

}  // namespace megacpp::lineage
