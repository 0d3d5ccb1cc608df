// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/inproc/rendezvous.h"

#include <algorithm>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/collectives/communicator.h"
#include "megacpp/collectives/inproc/move.h"

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

void Rendezvous::leave() {
  if (++left_ < calls_.size()) return;
  std::ranges::fill(calls_, nullptr);
  std::ranges::fill(gates_, 0);
  passed_ = {};
  posted_ = nullptr;
  left_ = 0;
}

GroupCalls::GroupCalls(std::vector<int64_t> members)
    : members_(std::move(members)), ring_(static_cast<size_t>(2 * kMaxInFlight), Rendezvous(members_.size())) {}

std::vector<int64_t> InFlight::awaited() const {
  if (!rendezvous) return {call->peer};
  std::vector<int64_t> chips;
  const int64_t gates = rendezvous->gates_passed(call->group->index);
  for (int64_t index = 0; index < call->group->size(); ++index)
    if (rendezvous->gates_passed(index) < gates) chips.push_back(call->group->members[static_cast<size_t>(index)]);
  return chips;
}

}  // namespace megacpp::collectives
