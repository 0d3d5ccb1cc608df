// SPDX-License-Identifier: Apache-2.0
// The report of memory that ran out: the same for every class and every backend, printed when a launch ends and kept in
// the catalog.
#pragma once

#include <string>
#include <vector>

#include "megacpp/hardware/catalog/oom_report.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/ladder.h"
#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::launch {

/// `tried` are all reductions of this launch so far. What the failure does not say of bytes comes from the plan.
catalog::OomReport make_report(const fit::Estimate& estimate, const memory::OutOfMemory& failure,
                               const std::vector<fit::Attempt>& tried);

std::vector<catalog::Reduction> reductions_of(const std::vector<fit::Attempt>& tried);

/// Model and pattern, shape, layout, where it failed, what the bytes were for, every reduction, how it ended.
std::vector<std::string> lines_of(const catalog::OomReport& report);

}  // namespace megacpp::launch
