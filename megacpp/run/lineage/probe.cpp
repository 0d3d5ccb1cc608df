// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/probe.h"

#include <algorithm>
#include <iterator>

#include "megacpp/core/base/child_process.h"

namespace megacpp::lineage {
namespace {

std::vector<Probe> collect_probes() {
  std::vector<Probe> all;
  for (std::vector<Probe> (*const group)() : {
#define MEGACPP_PROBE_GROUP(name) name##_probes,
#include "megacpp/run/lineage/probe_list.inc"
#undef MEGACPP_PROBE_GROUP
       }) {
    std::vector<Probe> probes = group();
    std::move(probes.begin(), probes.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const std::vector<Probe>& all_probes() {
  static const std::vector<Probe> probes = collect_probes();
  return probes;
}

std::vector<std::string> probe_groups() {
  std::vector<std::string> groups;
  for (const Probe& probe : all_probes())
    if (groups.empty() || groups.back() != probe.group) groups.push_back(probe.group);
  return groups;
}

std::string answer_of(const Probe& probe, const Subject& subject) {
  if (!probe.time_limit) return probe.ask(subject);
  return base::run_in_child([&] { return probe.ask(subject); }, *probe.time_limit);
}

}  // namespace megacpp::lineage
