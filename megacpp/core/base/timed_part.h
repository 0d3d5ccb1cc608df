// SPDX-License-Identifier: Apache-2.0
// Where a stretch of time went, in parts that follow each other.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace megacpp::base {

struct TimedPart {
  std::string name = {};  // "weights"
  double seconds = 0;
  std::string note = {};  // "31 cached"; may be empty
};

/// Begins when it is made.
class PartClock {
 public:
  /// Since it began, or since the last call of lap() or add().
  void lap(const std::string& name);
  /// Of the same time, measured elsewhere; what they leave of it is in no part.
  void add(const std::vector<TimedPart>& parts);

  const std::vector<TimedPart>& added() const { return parts_; }
  /// These, and what lies between them as "other".
  std::vector<TimedPart> all() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  Time start_ = std::chrono::steady_clock::now(), last_ = start_;
  std::vector<TimedPart> parts_;
};

/// "2.81 s: data 0.08, weights 0.52, kernels 0.31 (31 cached), other 1.90"; empty without any part.
std::string to_text(const std::vector<TimedPart>& parts);

}  // namespace megacpp::base
