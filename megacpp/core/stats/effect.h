// SPDX-License-Identifier: Apache-2.0
// Whether two sides differ, and by how much: series of positive numbers in, a ratio with its interval out. A side is
// one run or several; a run is a series of step times in the order they were measured. With several runs on a side the
// run is the unit, and how much runs of one side differ is measured; a run that stands alone is taken to differ as
// much, or as much as its own series says. With one run on each it cannot be: the interval then allows for
// kAssumedLaunchSpread. A difference is called one only where the interval leaves out 1, which chance
// alone brings about in at most 1 - kConfidence of all comparisons of equal sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/words.h"

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
constexpr auto words_of(Finding /*finding*/) {
  return std::to_array<base::Word<Finding>>({{Finding::lower, "lower"},
                                             {Finding::higher, "higher"},
                                             {Finding::no_difference, "no difference"},
                                             {Finding::too_short, "too short"}});
}

/// Of the other side against the baseline.
struct Effect {
  Finding finding = Finding::too_short;
  double baseline = 0;  // trimmed mean of the side's runs
  double other = 0;     //
  double ratio = 1;     // other over baseline
  double low = 0;       // of the ratio, at the confidence; 0 and no high where the runs tell none
  std::optional<double> high = {};
  double confidence = kConfidence;     // of the interval, and that what it leaves out is a difference
  std::optional<double> p_value = {};  // of equal sides
  std::string test = {};               // its name, with what it assumes
  std::string too_short = {};          // why, where that is the finding
  /// For a change of kSoughtChange to be found in kSoughtPower of all comparisons.
  size_t recommended_values = 0;  // of each run
  size_t recommended_runs = 1;    // of each side
};

/// What each of several comparisons needs, for all of them together to name a difference of equal sides no more often
/// than one at kConfidence does (Bonferroni).
double confidence_of_each(size_t comparisons);

/// Neither side is empty, and no value is 0 or less.
Effect compare(const Side& baseline, const Side& other, double confidence = kConfidence);

}  // namespace megacpp::stats
