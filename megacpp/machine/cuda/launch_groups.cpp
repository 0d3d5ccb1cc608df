// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/launch_groups.h"

#include <algorithm>
#include <map>

namespace megacpp::runtime::cuda {
namespace {

bool any_overlap(const std::vector<ByteRange>& some, const std::vector<ByteRange>& others) {
  return std::ranges::any_of(some, [&](const ByteRange& one) {
    return std::ranges::any_of(others,
                               [&](const ByteRange& other) { return one.begin < other.end && other.begin < one.end; });
  });
}

}  // namespace

bool depend(const LaunchFootprint& one, const LaunchFootprint& other) {
  return any_overlap(one.writes, other.writes) || any_overlap(one.writes, other.reads) ||
         any_overlap(one.reads, other.writes);
}

std::vector<std::vector<size_t>> group_launches(std::span<const LaunchFootprint> launches) {
  std::vector<std::vector<size_t>> groups;
  std::map<int64_t, size_t> last_of;  // group by kernel
  const auto may_join = [&](size_t launch, size_t group) {
    if (groups[group].size() >= launches[launch].max_group) return false;
    for (; group < groups.size(); ++group)
      for (const size_t member : groups[group])
        if (depend(launches[member], launches[launch])) return false;
    return true;
  };
  for (size_t n = 0; n < launches.size(); ++n) {
    const int64_t kernel = launches[n].kernel;
    const auto last = last_of.find(kernel);
    if (last != last_of.end() && may_join(n, last->second)) {
      groups[last->second].push_back(n);
      continue;
    }
    if (kernel >= 0) last_of[kernel] = groups.size();
    groups.push_back({n});
  }
  return groups;
}

}  // namespace megacpp::runtime::cuda
