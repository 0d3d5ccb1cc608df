// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/engine/call_engine.h"

#include <algorithm>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {

CallEngine::CallEngine(Options options) : options_(std::move(options)) {
  MEGACPP_CHECK(options_.chips >= 1) << "a mesh needs a chip, got " << options_.chips;
  chips_.resize(static_cast<size_t>(options_.chips));
  for (const int64_t chip : options_.local)
    chips_[static_cast<size_t>(chip)] = std::make_unique<ChipCalls>(*this, chip);
}

CallEngine::~CallEngine() = default;

void CallEngine::attach(Mover& mover, OtherProcesses* others) {
  mover_ = &mover;
  others_ = others;
  const EngineLock lock(mutex);
  for (const int64_t chip : options_.local) at(chip).add_idle(kMaxInFlight);
}

ChipCalls& CallEngine::at(int64_t chip) const {
  MEGACPP_CHECK(is_local(chip)) << chip_text(chip) << " is not local";
  return *chips_[static_cast<size_t>(chip)];
}

void CallEngine::require_alive(int64_t chip, const std::string& where) {
  if (!has_failed_) return;
  EngineLock lock(mutex);
  check_alive(lock, chip, where);
}

void CallEngine::fail(EngineLock& lock, const Failure& failure) {
  if (!has_failed_.exchange(true)) {
    proposed_ = failure;
    others_ != nullptr ? others_->propose(failure) : decide(failure);
  }
  wake_all();
  still_.wait(lock, [this] { return moving_ == 0; });
  mover_->settle(failure.chip);
}

void CallEngine::decide(const Failure& failure) {
  if (decided_) return;
  decided_ = failure;
  has_failed_ = true;
  decision_.notify_all();
  wake_all();
}

void CallEngine::decide(const base::Problem& told) {
  if (decided_) return;
  told_ = told;
  decide(Failure{});
}

const Failure& CallEngine::decided_failure(EngineLock& lock, int64_t chip) {
  // Cut off from the process that decides, this one must end by itself, and soon.
  if (others_ != nullptr) {
    others_->stop_waiting(chip);
    decision_.wait_for(lock, others_->decision_limit(), [this] { return decided_.has_value(); });
  }
  if (!decided_) decide(*proposed_);
  return *decided_;
}

void CallEngine::check_alive(EngineLock& lock, int64_t chip, const std::string& where) {
  if (!has_failed_) return;
  const Failure& failure = decided_failure(lock, chip);
  still_.wait(lock, [this] { return moving_ == 0; });
  const std::string place = others_ != nullptr ? others_->place_of(failure.chip) : "";
  base::Problem problem = told_ ? *told_ : other_chip_failed(chip, where, failure, place);
  problem.where = chip_text(chip) + ", " + where;
  base::raise(base::Code::E3101, problem);
}

void CallEngine::fail_with(EngineLock& lock, int64_t chip, base::Code code, const base::Problem& problem) {
  const Failure own = {chip, reason_of(code, problem)};
  fail(lock, own);
  if (decided_failure(lock, chip) != own) check_alive(lock, chip, problem.where);
  base::raise(code, problem);
}

GroupCalls& CallEngine::group_calls(const std::vector<int64_t>& members, int64_t chip) {
  const auto known = std::ranges::find(groups_, members, &GroupCalls::members);
  if (known != groups_.end()) return *known;
  GroupCalls& group = groups_.emplace_back(
      GroupCalls::Options{.members = members, .local_chips = local(), .number = std::ssize(groups_)});
  try {
    mover_->open(group, chip);
  } catch (...) {
    groups_.pop_back();  // who asks next opens it anew, and is told the same
    throw;
  }
  return group;
}

void CallEngine::wake_all() {
  for (const int64_t chip : options_.local) wake(chip);
}

void CallEngine::wake_members(const GroupCalls& group) {
  for (const int64_t index : group.local()) wake(group.members()[static_cast<size_t>(index)]);
}

bool CallEngine::wake_waiting() {
  const auto waiting = std::ranges::find_if(options_.local, [this](int64_t chip) { return at(chip).is_waiting(); });
  if (waiting == options_.local.end()) return false;
  wake(*waiting);
  return true;
}

const InFlight* CallEngine::oldest_message_with(const std::vector<int64_t>& chips) const {
  for (const int64_t chip : options_.local)
    for (const InFlight& each : at(chip).active())
      if (!each.rendezvous && !each.is_moved && std::ranges::binary_search(chips, each.call->peer)) return &each;
  return nullptr;
}

}  // namespace megacpp::collectives
