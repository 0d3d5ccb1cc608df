// SPDX-License-Identifier: Apache-2.0
// Leaves a receipt in the directory of a run, however the run ends: one that says "running" before the first step, from
// which the next reader makes that of a killed run, and the whole one at the end. A receipt that cannot be written is
// said and ends no run. One process of a run records it.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/timed_part.h"
#include "megacpp/evidence/receipt/collect.h"
#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/training.h"

namespace megacpp::receipt {

class Recorder {
 public:
  /// Of a launch that is planned and will be loaded next; it must outlive the recorder. `first_step` steps were done
  /// before.
  Recorder(const launch::Launch& launch, std::filesystem::path run, RunFacts facts, int64_t first_step = 0);

  /// What looks into the steps, before it begins: "profile".
  void watch(std::vector<std::string> names) { facts_.watched = std::move(names); }

  /// When a rung is loaded, and its first step follows; `start`: where the time went until now. A run with nothing left
  /// to do keeps the receipt it has.
  void begin(const std::vector<base::TimedPart>& start);
  /// Says whether the run is comparable.
  void finish(const launch::Trained& trained);
  /// What fails before it began leaves the receipt of an earlier run as it is.
  void fail(const std::exception& error);

  /// That receipts have cost the run so far, before its first step and after its last.
  double seconds() const { return seconds_; }

 private:
  Receipt receipt_now();
  /// The receipt that `make` gives. What fails here, memory included, takes nothing from the run or from its own error.
  void store(const std::function<Receipt()>& make);
  std::optional<int64_t> throttled() const;

  const launch::Launch& launch_;
  std::filesystem::path run_;
  RunFacts facts_;
  int64_t first_step_;
  std::string started_at_;
  std::chrono::steady_clock::time_point load_start_;
  std::optional<double> load_seconds_;       // of the rung that began last; nothing: none has
  std::vector<base::TimedPart> start_;       // the time until then
  std::optional<int64_t> throttled_before_;  // step 0
  /// Planned once for the changes that run, however often receipts are written.
  struct AlongStep {
    std::string changes;
    std::vector<FamilyMemory> memory;
  };
  std::optional<AlongStep> along_step_;
  double seconds_ = 0;
};

}  // namespace megacpp::receipt
