// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/liveness.h"

#include <algorithm>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

// A process that ends takes its memory with it, and has said why before: for its words to come.
constexpr std::chrono::seconds kUnreadableLimit(1);

}  // namespace

std::chrono::milliseconds answer_limit(std::chrono::milliseconds wait_limit) {
  constexpr std::chrono::milliseconds kLeast(1000), kMost(2000);
  return std::min(4 * wait_limit, std::clamp(wait_limit / 5, kLeast, kMost));
}

Liveness::Liveness(const Parts& parts)
    : engine_(parts.engine), map_(parts.map), loop_(parts.loop), states_(static_cast<size_t>(parts.map.count)) {}

void Liveness::on_heard(int64_t process) {
  State& state = states_[static_cast<size_t>(process)];
  state.heard = Clock::now();
  state.is_silent = false;
}

void Liveness::on_lost(int64_t process, const std::string& why) {
  states_[static_cast<size_t>(process)].lost = why;
  news.notify_all();
}

void Liveness::on_unreadable(const PeerGone& gone, const Call& call) {
  if (unreadable_) return;
  const std::string why = gone.what();
  unreadable_ = {gone.process(), (gone.has_ended() ? " is gone (" + why + ")" : ": " + why) + " in " + to_string(call),
                 Clock::now()};
}

void Liveness::propose(const Failure& failure) {
  if (arbiter() == map_.own)
    end_all(failure);
  else
    loop_.post(arbiter(), {.kind = FrameKind::failed, .from = failure.chip}, failure.reason);
  loop_.wake();
}

void Liveness::end_all(const Failure& failure) {
  if (engine_.is_decided()) return;
  engine_.decide(failure);
  for (int64_t process = 0; process < map_.count; ++process)
    if (process != map_.own) loop_.post(process, {.kind = FrameKind::is_over, .from = failure.chip}, failure.reason);
}

int64_t Liveness::arbiter() const {
  return std::ranges::find_if(states_, [](const State& state) { return !state.lost; }) - states_.begin();
}

bool Liveness::is_silent(int64_t process, Clock::time_point since, std::chrono::milliseconds limit) const {
  return Clock::now() - std::max(state_of(process).heard, since) >= limit;
}

void Liveness::ask_for_sign(int64_t process) {
  loop_.post(process, {.kind = FrameKind::who_waits, .to = -1, .number = -1});
  loop_.wake();
}

std::optional<std::string> Liveness::silent_successor(std::chrono::milliseconds limit) {
  EngineLock lock(engine_.mutex);
  const int64_t next = (map_.own + 1) % map_.count;
  if (next == map_.own) return std::nullopt;
  const auto begin = Clock::now();
  ask_for_sign(next);
  while (!engine_.has_failed() && state_of(next).heard < begin) {
    if (Clock::now() - begin >= limit) return map_.name_of(next);
    news.wait_for(lock, kLookAgain);
  }
  return std::nullopt;
}

void Liveness::look_for_losses(EngineLock& lock, const std::function<std::string(int64_t process)>& wanted_of) {
  if (unreadable_ && !engine_.has_failed() && Clock::now() - unreadable_->since >= kUnreadableLimit)
    engine_.fail(lock,
                 {map_.chips_of(unreadable_->process).front(), map_.name_of(unreadable_->process) + unreadable_->what});
  for (int64_t process = 0; process < map_.count; ++process) {
    const std::optional<std::string> why = lost(process);
    if (!why || engine_.has_failed()) continue;
    const std::string call = wanted_of(process);
    if (!call.empty())
      engine_.fail(lock,
                   {map_.chips_of(process).front(), map_.name_of(process) + " is gone (" + *why + ") in " + call});
  }
}

}  // namespace megacpp::collectives
