// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/algorithm_rounds.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

// After so many rounds those stay that take at most so many times the least, and of them the fastest.
struct Cut {
  size_t rounds;
  double within;
  size_t most;
};
// A single time is off by a few per cent on a busy card, a median of three by one.
constexpr std::array<Cut, 2> kCuts = {{{1, 1.2, 12}, {3, 1.05, 4}}};
constexpr size_t kRounds = 9;
constexpr double kTie = 1.005;  // times the least: what two searches cannot tell apart
constexpr int64_t kMostSets = 8;

}  // namespace

AlgorithmRounds::AlgorithmRounds(size_t candidates) : times_(candidates), left_(candidates) {
  MEGACPP_CHECK(candidates > 0) << "nothing to choose from";
  std::iota(left_.begin(), left_.end(), size_t{0});
}

size_t AlgorithmRounds::most_times_after_first() {
  size_t times = 0;
  for (size_t i = 0; i < kCuts.size(); ++i)
    times += kCuts[i].most * ((i + 1 < kCuts.size() ? kCuts[i + 1].rounds : kRounds) - kCuts[i].rounds);
  return times;
}

std::vector<size_t> AlgorithmRounds::round() const {
  if (rounds_ == kRounds || (rounds_ > 0 && left_.size() == 1)) return {};
  std::vector<size_t> order = left_;
  if (rounds_ % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

void AlgorithmRounds::end_round() {
  ++rounds_;
  for (const Cut& cut : kCuts) {
    if (cut.rounds != rounds_) continue;
    const double slowest = least_median() * cut.within;
    std::erase_if(left_, [&](size_t candidate) { return median_of(candidate) > slowest; });
    std::stable_sort(left_.begin(), left_.end(), [&](size_t x, size_t y) { return median_of(x) < median_of(y); });
    left_.resize(std::min(left_.size(), cut.most));
    std::sort(left_.begin(), left_.end());
  }
}

size_t AlgorithmRounds::best() const {
  const double slowest = least_median() * kTie;
  return *std::find_if(left_.begin(), left_.end(), [&](size_t candidate) { return median_of(candidate) <= slowest; });
}

double AlgorithmRounds::median_of(size_t candidate) const {
  std::vector<double> times = times_[candidate];
  MEGACPP_CHECK(!times.empty()) << "candidate " << candidate << " was not timed";
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double AlgorithmRounds::least_median() const {
  double least = median_of(left_.front());
  for (const size_t candidate : left_) least = std::min(least, median_of(candidate));
  return least;
}

int64_t operand_sets(int64_t bytes, int64_t cache_bytes) {
  const int64_t wanted = 2 * cache_bytes;
  return std::clamp<int64_t>((wanted + bytes - 1) / std::max<int64_t>(bytes, 1), 1, kMostSets);
}

}  // namespace megacpp::runtime::cuda
