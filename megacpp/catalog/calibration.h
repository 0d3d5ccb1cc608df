// SPDX-License-Identifier: Apache-2.0
// From predicted against measured to a correction. A prediction is a sum of named parts (weights, activations,
// temporaries, ...); a correction multiplies each part by its own factor, fitted so that the relative errors of all
// samples are small: least squares with factors that are never negative, held near 1 where samples say little, and
// samples that fit nothing else counting less. With fewer samples than parts one factor serves all: the median ratio.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/catalog/records.h"

namespace megacpp::catalog {

enum class Method { none, median_ratio, parts };  // no samples; one factor; a factor for each part
std::string_view method_name(Method method);

/// Relative errors |predicted / measured - 1|.
struct Errors {
  double median = 0;
  double worst = 0;
};

struct Correction {
  Method method = Method::none;
  double factor = 1;                                         // median of measured / predicted
  std::vector<std::pair<std::string, double>> factors = {};  // by part; one that no sample had keeps 1
  size_t samples = 0;
  Errors before = {};                // of the predictions of these samples as they were made
  std::optional<Errors> after = {};  // of each, corrected by what the others teach; absent below two samples

  double factor_of(const std::string& part) const;
  double corrected(const std::vector<Part>& parts) const;
};

Correction fit_correction(const std::vector<Sample>& samples);
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
