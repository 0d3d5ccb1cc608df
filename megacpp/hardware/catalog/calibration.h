// SPDX-License-Identifier: Apache-2.0
// From predicted against measured to a correction. A prediction is a sum of named parts (weights, activations,
// temporaries, ...); a correction multiplies each part by its own factor, fitted so that the relative errors of all
// samples are small: least squares with factors that are never negative, held near 1 where samples say little, and
// samples that fit nothing else counting less. With fewer samples than parts one factor serves all: the median ratio.
// What another build, plugin or machine measured counts only while the own samples are too few for a factor for each
// part, and a correction says whose samples it was learnt from.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/hardware/catalog/records.h"

namespace megacpp::catalog {

enum class Method { none, median_ratio, parts };  // no samples; one factor; a factor for each part
std::string_view method_name(Method method);

/// Relative errors |predicted / measured - 1|.
struct Errors {
  double median = 0;
  double worst = 0;
};

/// Who measured samples, and how many.
struct Source {
  Build build = {};  // without threads, which each layout has its own number of
  size_t samples = 0;

  bool operator==(const Source&) const = default;
};

struct Correction {
  Method method = Method::none;
  double factor = 1;                                         // median of measured / predicted
  std::vector<std::pair<std::string, double>> factors = {};  // by part; one that no sample had keeps 1
  size_t samples = 0;
  Build own = {};                    // without threads: whose predictions it is for
  size_t own_samples = 0;            // of the samples, those that it measured itself
  std::vector<Source> others = {};   // who measured the rest, most samples first
  size_t left_out = 0;               // samples of others beside these: the own ones suffice
  Errors before = {};                // of the predictions of these samples as they were made
  std::optional<Errors> after = {};  // of each, corrected by what the others teach; absent below two samples

  double factor_of(const std::string& part) const;
  double corrected(const std::vector<Part>& parts) const;
};

/// "2 of this build; 3 of 0.1.0+1f2e, 1 of 0.1.0+77aa, plugin cpu 0.6.1": whose samples it was learnt from.
std::string sources_text(const Correction& correction);

/// For predictions of `whose`.
Correction fit_correction(const std::vector<Sample>& samples, const Build& whose = {});
/// For what has that signature: learnt from the samples of other subjects alone.
Correction correction_by_others(const std::vector<Sample>& samples, const Signature& judged);

/// One sample judged by a correction that has not seen it.
struct Judged {
  Sample sample = {};
  double predicted = 0;  // sum of the parts
  double corrected = 0;
};
struct LeaveOneOut {
  std::vector<Judged> judged = {};
  Errors before = {};
  Errors after = {};
};
/// Judges every sample by the samples of all other subjects.
LeaveOneOut leave_one_out(const std::vector<Sample>& samples);

}  // namespace megacpp::catalog
