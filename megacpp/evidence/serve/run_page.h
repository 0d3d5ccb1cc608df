// SPDX-License-Identifier: Apache-2.0
// The page of one run: how it stands, its charts, the memory of every chip, the receipt's answers and figures.
#pragma once

#include <string>

#include "megacpp/evidence/serve/page.h"
#include "megacpp/evidence/serve/run_index.h"

namespace megacpp::serve {

/// State, progress and verdict; replaced while the run goes on, as the charts are.
std::string progress_html(const RunDetails& run);
/// Loss, speed and gradient norm over the steps.
std::string charts_html(const RunDetails& run);

Page run_page(const std::string& name, const RunDetails& run);

}  // namespace megacpp::serve
