// SPDX-License-Identifier: Apache-2.0
// What one process of a run tells the others, as text and back: the coordinator the rates of its machine and what its
// catalog knows, so that all plan from the same facts; one whose memory ran out its report; and all what their chips
// have used.
#pragma once

#include <string>
#include <vector>

#include "megacpp/catalog/oom_report.h"
#include "megacpp/catalog/records.h"
#include "megacpp/hw/host_chip.h"
#include "megacpp/launch/run_measures.h"

namespace megacpp::launch {

std::string rates_text(const hw::HostRates& rates);
hw::HostRates rates_of(const std::string& text);

std::string samples_text(const std::vector<catalog::Sample>& samples);
std::vector<catalog::Sample> samples_of(const std::string& text);

/// Where an earlier launch went on that did not fit as requested.
struct RememberedStart {
  catalog::Start start;
  std::string ran;  // what is remembered of it, in words
};
std::string start_text(const RememberedStart& start);
RememberedStart start_of(const std::string& text);

/// Of memory that ran out, from whichever process it did on.
std::string report_text(const catalog::OomReport& report);
catalog::OomReport report_of(const std::string& text);

/// Of the chips of one process, at the end of a run.
std::string measures_text(const RunMeasures& measures);
RunMeasures measures_of(const std::string& text);

}  // namespace megacpp::launch
