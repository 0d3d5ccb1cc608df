// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/sweep_result.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/stats/effect.h"
#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/receipt/store.h"

namespace megacpp::sweep {
namespace {

using receipt::Receipt;

std::vector<Receipt> receipts_of(const Sweep& sweep, size_t value, ValueResult& result) {
  std::vector<Receipt> receipts;
  for (const TrialRecord& record : sweep.trials) {
    if (record.trial.value != value) continue;
    if (record.status != 0) {
      result.errors.push_back(fmt::format("exit status {}: {}", record.status, record.error));
      continue;
    }
    try {
      receipts.push_back(receipt::receipt_of(sweep.run_path(record)));
      result.runs.push_back(sweep.run_path(record).string());
    } catch (const base::Error& error) {
      if (base::class_of(error.code()) == base::ErrorClass::internal) throw;
      result.errors.push_back(
          fmt::format("{} {}: {}", base::code_name(error.code()), error.problem().where, error.problem().got));
    }
  }
  return receipts;
}

void measure(const std::vector<Receipt>& receipts, ValueResult& result) {
  double rate = 0, seconds = 0, count = 0;
  for (const Receipt& receipt : receipts) {
    if (!receipt.times.steady || receipt.times.steady->steps == 0) continue;
    rate += receipt.times.steady->tokens_per_second();
    seconds += receipt.times.steady->step_seconds();
    count += 1;
  }
  if (count > 0) result.tokens_per_second = rate / count;
  if (count > 0) result.step_seconds = seconds / count;
  if (receipts.empty()) return;
  result.chips = receipts.front().header.hardware.chips;
  if (!receipts.front().memory.planned.empty())
    result.planned_peak_bytes = receipts.front().memory.planned.front().planned_bytes;
}

}  // namespace

std::vector<ValueResult> results_of(const Sweep& sweep) {
  std::vector<ValueResult> results;
  std::vector<std::vector<Receipt>> receipts;  // by value
  for (size_t value = 0; value < sweep.axis.values.size(); ++value) {
    ValueResult result{.value = sweep.axis.values[value]};
    receipts.push_back(receipts_of(sweep, value, result));
    measure(receipts.back(), result);
    results.push_back(std::move(result));
  }
  const auto has_run = [](const std::vector<Receipt>& of_value) { return !of_value.empty(); };
  const auto first = std::ranges::find_if(receipts, has_run);
  const auto ran = static_cast<size_t>(std::ranges::count_if(receipts, has_run));
  for (size_t value = 0; value < receipts.size(); ++value)
    if (has_run(receipts[value]) && &receipts[value] != &*first)
      results[value].against_first = compare::compare(*first, receipts[value], stats::confidence_of_each(ran - 1));
  return results;
}

}  // namespace megacpp::sweep
