// SPDX-License-Identifier: Apache-2.0
// The parts of a page that are about one run: what its receipt answers, and its memory, collectives, ladder and
// experts.
#pragma once

#include "megacpp/evidence/report/html.h"
#include "megacpp/evidence/report/run_record.h"

namespace megacpp::report {

/// The verdict, the five answers, how it ended.
void add_answers(Page& page, const RunRecord& run);

/// Everything else but the pictures that runs share, each part under a subheading. Of a run with a receipt.
void add_details(Page& page, const RunRecord& run);

}  // namespace megacpp::report
