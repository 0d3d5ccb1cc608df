// SPDX-License-Identifier: Apache-2.0
// The hosts that a supervised training may be started on. All are asked at once before a start; those that do not
// answer are left out of it, and what is left gets the best layout that fits it: the same global batch, on fewer chips.
// A host that answers again is taken back at the next start.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

struct HostSlots {
  std::string name;
  int64_t processes = 1;

  bool operator==(const HostSlots&) const = default;
};
/// "a:4,b:4"; without a number one process. E1007 for a name that is none or stands twice, and for no processes.
std::vector<HostSlots> hosts_in(const std::string& text);
/// As hosts_in() reads them: what launchers take.
std::string to_text(const std::vector<HostSlots>& hosts);
int64_t processes_on(const std::vector<HostSlots>& hosts);

/// With {processes} and {hosts} replaced. E1007 where neither is there: the start would not depend on the hosts. And
/// where one is, but there are no hosts.
std::vector<std::string> launcher_on(const std::vector<HostSlots>& hosts, const std::vector<std::string>& launcher);

/// A recipe, and the chips there are for it.
struct LayoutWish {
  const recipe::Recipe& recipe;
  int64_t chips = 1;
  int64_t chips_of_host = 1;  // the most of all: they share its memory
};
/// What to set for the layout whose step takes least, of those that fit; the global batch stays. Hosts are taken to be
/// like this machine. E1401 where no layout is legal or none fits.
plan::Changes best_layout(const LayoutWish& wish);

/// How a host is asked whether it can be used.
struct Probe {
  std::vector<std::string> words;                              // "{host}" stands for its name
  std::chrono::milliseconds limit = std::chrono::seconds(10);  // then it does not answer
  std::function<bool()> should_stop = [] { return false; };
};
/// Of the words that a user gives. E1007 where there are none, or none of them names the host.
Probe probe_of(const std::vector<std::string>& words);
/// No: what the probe printed last, or how it ended. E1007 where it cannot be started.
base::Decision ask_host(const Probe& probe, const std::string& host);

struct HostPool {
  std::vector<HostSlots> hosts = {};                                    // none: the launcher knows them
  std::function<base::Decision(const std::string& host)> answers = {};  // whether it can be used now; on any thread
  std::function<plan::Changes(const LayoutWish&)> find_layout = best_layout;

  /// Of every host, in their order; all are asked at once.
  std::vector<base::Decision> ask_all() const;
};

}  // namespace megacpp::launch
