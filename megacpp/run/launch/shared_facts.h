// SPDX-License-Identifier: Apache-2.0
// What one process of a run tells the others, as text and back: the coordinator the rates of its machine and what its
// catalog knows, so that all plan from the same facts; one whose memory ran out its report; and all what machine they
// are on, what cores they may use, and what their chips have used.
#pragma once

#include <string>
#include <vector>

#include "megacpp/hardware/catalog/oom_report.h"
#include "megacpp/hardware/catalog/records.h"
#include "megacpp/hardware/hw/host_chip.h"
#include "megacpp/run/launch/core_share.h"
#include "megacpp/run/launch/run_hosts.h"
#include "megacpp/run/launch/run_measures.h"

namespace megacpp::launch {

std::string rates_text(const hw::HostRates& rates);
hw::HostRates rates_of(const std::string& text);

/// The start with which an earlier launch went on that did not fit as requested.
struct RememberedStart {
  catalog::Start start = {};
  std::string ran = {};  // what is remembered of it, in words
};

/// For samples (std::vector<catalog::Sample>), a RememberedStart, the report of memory that ran out
/// (catalog::OomReport), and of one process its ProcessHost, CoreUser and RunMeasures.
template <typename Fact>
std::string fact_text(const Fact& fact);
template <typename Fact>
Fact fact_of(const std::string& text);

}  // namespace megacpp::launch
