// SPDX-License-Identifier: Apache-2.0
// The fastest of some candidates by times that are taken in rounds, one of each candidate that is left, so that clocks
// that drift are fair to all. The slow are dropped early and the last few timed most often. Medians count, and among
// those that cannot be told apart the candidate that stands first, so that two searches agree. Arithmetic alone:
// nothing here runs anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace megacpp::runtime::cuda {

class AlgorithmRounds {
 public:
  /// At least one candidate, the most likely first.
  explicit AlgorithmRounds(size_t candidates);

  /// How many times are taken after the first round, at most.
  static size_t most_times_after_first();

  /// Whom to time in this round, in this order: forwards and backwards in turn. Empty: it is decided.
  std::vector<size_t> round() const;
  void add(size_t candidate, double seconds) { times_[candidate].push_back(seconds); }
  /// Once every candidate of the round has been timed; drops those that are slow by now.
  void end_round();

  /// Needs one round.
  size_t best() const;
  double median_of(size_t candidate) const;

 private:
  double least_median() const;

  std::vector<std::vector<double>> times_;  // by candidate
  std::vector<size_t> left_;                // candidates, ascending
  size_t rounds_ = 0;                       // that ended
};

/// How many sets of operands of that size are used in turn, so that none is found in the cache from the time before.
/// Each is written and read, so that twice the cache is enough; few, for there is no time to fill many.
int64_t operand_sets(int64_t bytes, int64_t cache_bytes);

}  // namespace megacpp::runtime::cuda
