// SPDX-License-Identifier: Apache-2.0
// What corrects estimates, for people and programs: how many measurements, and whose they are.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/hardware/catalog/calibration.h"

namespace megacpp::cli {

/// What a lane's measurements taught.
struct LaneCorrection {
  std::string lane = {};      // "xla v6e"
  std::string quantity = {};  // "peak bytes"
  catalog::Correction correction = {};
};

/// "peak bytes corrected by 3 measurements of xla v6e (2 of this build; 1 of 0.1.0+77aa): these were off by 9.0% in the
/// median as planned, 2.0% corrected by the others"
std::string to_text(const LaneCorrection& lane);
/// A line each of those that have samples.
std::string to_text(const std::vector<LaneCorrection>& lanes);

/// Members of an object: samples, method, errors, and `sources`: {build, samples, this_build}, this build first.
Json to_json(const LaneCorrection& lane);

}  // namespace megacpp::cli
