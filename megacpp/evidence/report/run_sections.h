// SPDX-License-Identifier: Apache-2.0
// The parts of a page that are about one run: what its receipt answers, and its memory, collectives, ladder and
// experts.
#pragma once

#include "megacpp/evidence/report/html.h"
#include "megacpp/evidence/report/run_record.h"

namespace megacpp::report {

/// The verdict with its reasons.
void add_verdict(Page& page, const receipt::Receipt& receipt);
/// The five answers.
void add_answers(Page& page, const receipt::Answers& answers);
/// How it ended, and by which failure.
void add_ending(Page& page, const receipt::Ending& ending);

/// Everything else but the pictures that runs share, each part under a subheading. Of a run with a receipt.
void add_details(Page& page, const RunRecord& run);

}  // namespace megacpp::report
