// SPDX-License-Identifier: Apache-2.0
// The doctor: every probe asked, one finding each, against a lock file where there is one. A probe that fails, crashes
// or hangs is a finding like any other, and the others are asked all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/record.h"
#include "megacpp/run/lineage/lock_file.h"
#include "megacpp/run/lineage/probe.h"

namespace megacpp::lineage {

enum class Status : uint8_t {
  ok,
  drift,    // it is here, and not as documented
  missing,  // it is not here though documented, or does not work
};
constexpr auto words_of(Status /*status*/) {
  return std::to_array<base::Word<Status>>(
      {{Status::ok, "ok"}, {Status::drift, "drift"}, {Status::missing, "missing"}});
}

struct Finding {
  std::string name = {};
  std::string group = {};
  Status status = Status::ok;
  std::string live = {};                       // the answer; of a probe that failed its error
  std::optional<std::string> documented = {};  // by the lock file
  std::string fix = {};                        // empty where it is ok
};

template <typename Visit, base::Is<Finding> Self>
void visit_fields(const Visit& visit, Self& finding) {
  visit("probe", finding.name);
  visit("group", finding.group);
  visit("status", finding.status);
  visit("live", finding.live);
  visit("documented", finding.documented);
  visit("fix", finding.fix);
}

struct Examination {
  std::vector<std::string> groups = {};  // to ask; empty: all
  const Lock* lock = nullptr;            // to compare with; none: what is here is right as far as it works
  const std::vector<Probe>& probes = all_probes();
  /// Told the name of each probe before it is asked.
  std::function<void(const std::string& name)> progress = [](const std::string&) {};
};

/// In the order of the probes; what the lock file pins and no probe knows comes last. E1007 for a group that is none,
/// with the nearest.
std::vector<Finding> examine(const Subject& subject, const Examination& examination);

/// What a lock file pins, of findings of all groups. Raises what finding_error() gives where one of its values is not
/// known, since the probe failed.
Lock lock_of(const std::vector<Finding>& findings, const std::vector<Probe>& probes = all_probes());

/// E3401 that counts what is not ok and names the first of it with its fix; nothing where all is ok.
std::optional<base::Error> finding_error(const std::vector<Finding>& findings);

}  // namespace megacpp::lineage
