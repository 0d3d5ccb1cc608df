// SPDX-License-Identifier: Apache-2.0
// The log of a run as CSV (RFC 4180): a header, then a line for each logged step. What was not measured is empty.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/run/train/train.h"

namespace megacpp::metrics {

/// Columns are the members of log.jsonl by name, whether measured or not; `step_seconds` has the seconds of each step,
/// with spaces between them; behind these a column for each value of a block with experts: experts.block03.share.0.
std::string csv_text(const std::vector<train::StepReport>& reports);

/// One field: in quotes where it holds a comma, a quote or an end of line.
std::string csv_field(std::string_view text);

}  // namespace megacpp::metrics
