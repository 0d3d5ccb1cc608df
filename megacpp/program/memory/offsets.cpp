// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/offsets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "megacpp/core/base/error.h"

namespace megacpp::memory {
namespace {

// Free gaps of an address range that grows at its end, found by size and by offset.
class Gaps {
 public:
  int64_t take(int64_t bytes) {
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) return grow(bytes);
    const auto [size, offset] = *best;
    erase(offset, size);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      const auto [next_offset, next_bytes] = *next;
      erase(next_offset, next_bytes);
      bytes += next_bytes;
      next = by_offset_.lower_bound(offset);
    }
    if (next != by_offset_.begin()) {
      const auto [previous, previous_bytes] = *std::prev(next);
      if (previous + previous_bytes == offset) {
        erase(previous, previous_bytes);
        offset = previous;
        bytes += previous_bytes;
      }
    }
    insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  // Nothing fits: extend the last gap if it touches the end, else start behind everything.
  int64_t grow(int64_t bytes) {
    int64_t start = end_;
    if (!by_offset_.empty()) {
      const auto [offset, size] = *by_offset_.rbegin();
      if (offset + size == end_) {
        start = offset;
        erase(offset, size);
      }
    }
    end_ = start + bytes;
    return start;
  }

  void insert(int64_t offset, int64_t bytes) {
    by_size_.insert({bytes, offset});
    by_offset_[offset] = bytes;
  }
  void erase(int64_t offset, int64_t bytes) {
    by_size_.erase({bytes, offset});
    by_offset_.erase(offset);
  }

  std::set<std::pair<int64_t, int64_t>> by_size_;  // (bytes, offset)
  std::map<int64_t, int64_t> by_offset_;           // offset -> bytes
  int64_t end_ = 0;
};

// Allocates in order of `first`, frees after `last`; both keys are handed in so that time may run backwards.
Placement sweep(const std::vector<Interval>& intervals, const std::vector<size_t>& chosen, bool backwards) {
  const auto start = [&](size_t i) { return backwards ? ~intervals[i].last : intervals[i].first; };
  const auto stop = [&](size_t i) { return backwards ? ~intervals[i].first : intervals[i].last; };
  std::vector<size_t> by_start = chosen, by_stop = chosen;
  std::stable_sort(by_start.begin(), by_start.end(), [&](size_t a, size_t b) {
    return start(a) != start(b) ? start(a) < start(b) : intervals[a].bytes > intervals[b].bytes;
  });
  std::stable_sort(by_stop.begin(), by_stop.end(), [&](size_t a, size_t b) { return stop(a) < stop(b); });
  Placement placement;
  placement.offsets.assign(intervals.size(), 0);
  Gaps gaps;
  size_t freed = 0;
  for (const size_t i : by_start) {
    for (; freed < by_stop.size() && stop(by_stop[freed]) < start(i); ++freed)
      gaps.give(placement.offsets[by_stop[freed]], intervals[by_stop[freed]].bytes);
    placement.offsets[i] = gaps.take(intervals[i].bytes);
  }
  placement.bytes = gaps.end();
  return placement;
}

// Long-lived buffers below, short-lived ones above: they do not chop each other's gaps.
Placement two_regions(const std::vector<Interval>& intervals, uint32_t long_life, bool backwards) {
  std::vector<size_t> lasting, passing;
  for (size_t i = 0; i < intervals.size(); ++i)
    (intervals[i].last - intervals[i].first >= long_life ? lasting : passing).push_back(i);
  Placement below = sweep(intervals, lasting, backwards);
  const Placement above = sweep(intervals, passing, backwards);
  for (const size_t i : passing) below.offsets[i] = above.offsets[i] + below.bytes;
  below.bytes += above.bytes;
  return below;
}

}  // namespace

Busiest busiest(const std::vector<Interval>& intervals) {
  std::map<uint32_t, int64_t> change;
  for (const Interval& interval : intervals) {
    change[interval.first] += interval.bytes;
    change[interval.last + 1] -= interval.bytes;
  }
  Busiest most;
  int64_t alive = 0;
  for (const auto& [time, bytes] : change) {
    alive += bytes;
    if (alive > most.bytes) most = {time, alive};
  }
  return most;
}

Placement place(const std::vector<Interval>& intervals) {
  std::vector<size_t> all(intervals.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const int64_t lower_bound = busiest(intervals).bytes;
  Placement best = sweep(intervals, all, false);
  const auto keep_better = [&best](Placement candidate) {
    if (candidate.bytes < best.bytes) best = std::move(candidate);
  };
  keep_better(sweep(intervals, all, true));
  for (const uint32_t long_life : {8U, 32U, 128U, 512U})
    for (const bool backwards : {false, true})
      if (best.bytes > lower_bound) keep_better(two_regions(intervals, long_life, backwards));
  best.lower_bound = lower_bound;
  return best;
}

}  // namespace megacpp::memory
