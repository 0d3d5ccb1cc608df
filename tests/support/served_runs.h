// SPDX-License-Identifier: Apache-2.0
// Run directories for the dashboard: a receipt, a recipe and a log that nobody trained.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "megacpp/run/train/step_log.h"
#include "tests/support/clean_receipt.h"
#include "tests/support/seeded_receipts.h"

namespace megacpp::testing_support {

/// The lines of steps from `first` on.
inline std::string log_lines(int64_t first, int64_t end) {
  std::string text;
  for (const train::StepReport& report : steady_reports(end))
    if (report.step >= first) text += train::line_of(report);
  return text;
}

inline void write_run(const std::filesystem::path& folder, const receipt::Receipt& receipt, int64_t logged_steps = 20) {
  const std::filesystem::path run = folder / receipt.run;
  base::make_folder(run);
  base::write_file_atomically(run / "recipe.yaml", receipt.recipe);
  base::write_file_atomically(run / "log.jsonl", log_lines(0, logged_steps));
  receipt::write_receipt(receipt, run);
}

/// A run that is written as its process left it, or has it: without an ending.
inline receipt::Receipt unended(receipt::Receipt receipt) {
  receipt.ending.kind = receipt::EndingKind::running;
  receipt.ending.steps = 0;
  receipt.times = {};
  return receipt;
}

}  // namespace megacpp::testing_support
