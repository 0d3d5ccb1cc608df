// SPDX-License-Identifier: Apache-2.0
// Whether two sides differ, and by how much: series of positive numbers in, a ratio with its interval out. A side is
// one run or several; a run is a series of step times in the order they were measured. With several runs on a side the
// run is the unit, and how much runs of one side differ is measured. With one run on each it cannot be: the interval
// then allows for kAssumedLaunchSpread. A difference is called one only where the interval leaves out 1, which chance
// alone brings about in at most 1 - kConfidence of all comparisons of equal sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::stats {

inline constexpr double kConfidence = 0.95;
/// How much launches of one recipe differ, as a standard deviation of their step times, where that is not measured.
inline constexpr double kAssumedLaunchSpread = 0.01;
/// The change that a comparison should find, and how often: what recommended lengths are for.
inline constexpr double kSoughtChange = 0.05;
inline constexpr double kSoughtPower = 0.9;

using Series = std::vector<double>;
using Side = std::vector<Series>;

enum class Finding : uint8_t { lower, higher, no_difference, too_short };
std::string_view finding_name(Finding finding);  // "lower", "higher", "no difference", "too short"

/// Of the other side against the baseline.
struct Effect {
  Finding finding = Finding::too_short;
  double baseline = 0;  // trimmed mean of the side's runs
  double other = 0;     //
  double ratio = 1;     // other over baseline
  double low = 0;       // of the ratio, at kConfidence; 0 and no high where the runs tell none
  std::optional<double> high = {};
  std::optional<double> p_value = {};  // of equal sides
  std::string test = {};               // its name, with what it assumes
  std::string too_short = {};          // why, where that is the finding
  /// For a change of kSoughtChange to be found in kSoughtPower of all comparisons.
  size_t recommended_values = 0;  // of each run
  size_t recommended_runs = 1;    // of each side
};

/// Neither side is empty, and no value is 0 or less.
Effect compare(const Side& baseline, const Side& other);

}  // namespace megacpp::stats
