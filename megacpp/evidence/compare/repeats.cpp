// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/repeats.h"

#include <algorithm>
#include <utility>

namespace megacpp::compare {
namespace {

bool is_same_run(const receipt::Receipt& a, const receipt::Receipt& b) {
  return a.run == b.run && a.ending.started_at == b.ending.started_at &&
         a.times.samples.seconds == b.times.samples.seconds;
}

}  // namespace

std::vector<receipt::Receipt> each_once(std::vector<receipt::Receipt> receipts) {
  std::vector<receipt::Receipt> once;
  for (receipt::Receipt& receipt : receipts)
    if (std::ranges::none_of(once, [&](const receipt::Receipt& known) { return is_same_run(known, receipt); }))
      once.push_back(std::move(receipt));
  return once;
}

}  // namespace megacpp::compare
