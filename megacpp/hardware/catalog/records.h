// SPDX-License-Identifier: Apache-2.0
// What the catalog keeps: how launches ended, what a launch ended up running, predicted against measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/hardware/catalog/oom_report.h"
#include "megacpp/hardware/catalog/signature.h"

namespace megacpp::catalog {

/// How one launch, or one rung of a launch, ended. What was not predicted or measured is absent.
struct Outcome {
  Signature signature = {};  // of what was tried, with the rung's changes in it
  std::string at = {};       // UTC: "2026-11-15T17:03:21Z"
  bool fits = true;
  std::string oom_class = {};                    // of a failure: "compile", "load", "runtime", "host"
  std::string phase = {};                        // "compile", "load", "run step 3"
  int64_t rung = 0;                              // of the ladder; 0: as requested
  std::string chip = {};                         // the worst one: "chip 3 (data 1, model 1) on host a"
  std::optional<int64_t> predicted_bytes = {};   // peak of that chip
  std::optional<int64_t> measured_bytes = {};    //
  std::optional<int64_t> limit_bytes = {};       //
  std::optional<double> predicted_seconds = {};  // of a step
  std::optional<double> measured_seconds = {};   //
  std::string note = {};
  std::optional<OomReport> report = {};  // of a failure

  std::string_view ending() const { return fits ? "fits" : "fails"; }
};

using Setting = std::pair<std::string, std::string>;  // recipe key, value

/// Where the ladder ended for a launch: settings that worked in place of those requested.
struct Start {
  std::string at = {};  // UTC
  int64_t rung = 0;
  std::vector<Setting> settings = {};
  std::vector<std::string> reasons = {};  // why each rung was taken or skipped
};

/// What is known of a signature.
struct Remembered {
  std::optional<Build> other_build = {};  // that learnt it; absent: the signature's own
  std::optional<Outcome> last = {};
  int64_t fits = 0;                         // launches that ended so
  int64_t fails = 0;                        //
  std::optional<double> step_seconds = {};  // the last that was measured
  /// Absent when the signature has run as requested since.
  std::optional<Start> start = {};
};

using Part = std::pair<std::string, double>;  // a named share of a prediction: {"weights", 1.5e9}
double total(const std::vector<Part>& parts);

/// One prediction in its parts, and the number that was measured.
struct Sample {
  Signature signature = {};
  std::string at = {};        // UTC
  std::string lane = {};      // whose predictions are alike: "xla v6e"
  std::string quantity = {};  // "peak bytes", "argument bytes", "flops", "step seconds"
  std::vector<Part> parts = {};
  double measured = 0;  // positive
};

inline constexpr const char* kPeakBytes = "peak bytes";
inline constexpr const char* kStepSeconds = "step seconds";

}  // namespace megacpp::catalog
