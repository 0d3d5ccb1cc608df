// SPDX-License-Identifier: Apache-2.0
// Pictures of what runs logged and measured, several runs in one: a run has the same colour in all of them. Nothing
// where no run has such a number. Of more than kMostCurves runs the first ones are drawn.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/evidence/report/run_record.h"

namespace megacpp::report {

using Runs = std::vector<RunRecord>;

std::optional<std::string> loss_chart(const Runs& runs);
/// Tokens a second from log to log, without saving.
std::optional<std::string> throughput_chart(const Runs& runs);
/// Seconds of a steady step.
std::optional<std::string> parts_chart(const Runs& runs);
/// Of one run: the busiest expert over the mean, for the blocks where that was most.
std::optional<std::string> imbalance_chart(const RunRecord& run);

/// Of the logged steps, those with a loss that can be drawn.
size_t steps_with_loss(const RunRecord& run);

}  // namespace megacpp::report
