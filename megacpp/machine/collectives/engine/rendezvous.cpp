// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/engine/rendezvous.h"

#include <algorithm>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/communicator.h"

namespace megacpp::collectives {

void Rendezvous::post(int64_t index, const Call& call) {
  MEGACPP_CHECK(!calls_[static_cast<size_t>(index)]) << "posted twice: " << to_string(call);
  calls_[static_cast<size_t>(index)] = &call;
  posted_ = &call;
  steps_ = steps_of(call.kind);
  pass(index);
}

void Rendezvous::pass(int64_t index) {
  const int64_t gates = ++gates_[static_cast<size_t>(index)];
  ++passed_[static_cast<size_t>(gates)];
}

bool Rendezvous::leave() {
  if (++left_ < local_) return false;
  std::ranges::fill(calls_, nullptr);
  std::ranges::fill(gates_, 0);
  passed_ = {};
  posted_ = nullptr;
  left_ = 0;
  is_exchanging = false;
  arrivals = 0;
  other_call.clear();
  return true;
}

GroupCalls::GroupCalls(Options options) : number_(options.number), members_(std::move(options.members)) {
  for (size_t index = 0; index < members_.size(); ++index)
    if (std::ranges::binary_search(options.local_chips, members_[index])) local_.push_back(static_cast<int64_t>(index));
  ring_.assign(static_cast<size_t>(2 * kMaxInFlight), Rendezvous(members_.size(), local_.size()));
}

std::vector<int64_t> InFlight::awaited() const {
  if (!rendezvous) return {call->peer};
  std::vector<int64_t> chips;
  const int64_t gates = rendezvous->gates_passed(call->group->index);
  for (const int64_t index : group->local())
    if (rendezvous->gates_passed(index) < gates) chips.push_back(group->members()[static_cast<size_t>(index)]);
  return chips;
}

void InFlight::reset() {
  group = nullptr;
  rendezvous = nullptr;
  sequence = arrivals = 0;
  is_taken = is_moved = false;
  other_end = nullptr;
  other_call.clear();
}

}  // namespace megacpp::collectives
