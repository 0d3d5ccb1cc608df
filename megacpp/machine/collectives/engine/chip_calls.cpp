// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/engine/chip_calls.h"

#include <algorithm>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/engine/call_engine.h"

namespace megacpp::collectives {
namespace {

using Clock = std::chrono::steady_clock;

std::string posted_text(const Call& call) {
  return chip_text(call.group->members[static_cast<size_t>(call.group->index)]) + ": " + to_string(call);
}

// While a chip waits it may look after other processes, and leaves that to another when it ends.
class Waiting {
 public:
  Waiting(OtherProcesses* others, int64_t chip) : others_(others), chip_(chip) {}
  ~Waiting() {
    if (others_ != nullptr) others_->stop_waiting(chip_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  OtherProcesses* const others_;
  const int64_t chip_;
};

}  // namespace

int64_t ChipCalls::chips() const { return engine_.chips(); }

void ChipCalls::add_idle(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    InFlight& idle = idle_.emplace_back();
    idle.chip = rank_;
    idle.state = engine_.mover().make_state(rank_);
  }
}

const Group& ChipCalls::create_group(const std::vector<int64_t>& members) {
  for (const OwnGroup& own : groups_)
    if (own.group.members == members) return own.group;
  check_group(members, rank_, chips());
  const EngineLock lock(engine_.mutex);
  GroupCalls& calls = engine_.group_calls(members, rank_);
  add_idle(kMaxInFlight);
  Group group = {.members = members,
                 .index = std::ranges::find(members, rank_) - members.begin(),
                 .id = static_cast<int64_t>(groups_.size())};
  return groups_.emplace_back(OwnGroup{std::move(group), calls}).group;
}

void ChipCalls::reserve_messages(int64_t count) {
  const EngineLock lock(engine_.mutex);
  add_idle(count);
  message_limit_ += count;
}

Ticket ChipCalls::start(const Call& call, Stream stream) {
  check_call(call, chips());
  engine_.mover().enter(rank_);
  EngineLock lock(engine_.mutex);
  engine_.check_alive(lock, rank_, call.where);
  check_limit(call);
  InFlight& started = idle_.front();
  started.reset();
  started.number = next_number_++;
  started.call = &call;
  engine_.mover().mark(started, stream);
  active_.splice(active_.end(), idle_, idle_.begin());
  const Ticket ticket = {started.number};
  is_point_to_point(call.kind) ? post_message(lock, started) : post(lock, started);
  return ticket;
}

void ChipCalls::check_limit(const Call& call) const {
  int64_t in_flight = 0, limit = kMaxInFlight;
  if (is_point_to_point(call.kind)) {
    in_flight = std::ranges::count_if(active_, [](const InFlight& other) { return !other.rendezvous; });
    limit = message_limit_;
  } else {
    const OwnGroup& own = groups_.at(static_cast<size_t>(call.group->id));
    MEGACPP_CHECK(&own.group == call.group) << "a group of another chip: " << to_string(call);
    const auto oldest =
        std::ranges::find_if(active_, [&](const InFlight& other) { return other.call->group == call.group; });
    if (oldest != active_.end()) in_flight = own.started - oldest->sequence;
  }
  MEGACPP_CHECK(in_flight < limit) << in_flight << " calls are in flight before " << to_string(call);
}

// Whoever completes the group's call begins it for all.
void ChipCalls::post(EngineLock& lock, InFlight& started) {
  const Call& call = *started.call;
  OwnGroup& own = groups_[static_cast<size_t>(call.group->id)];
  started.sequence = own.started++;
  started.group = &own.calls;
  started.rendezvous = &own.calls.rendezvous(started.sequence);
  const Call* const other = started.rendezvous->posted();
  if (other != nullptr && !is_same_movement(call, *other)) mismatch(lock, call, posted_text(*other));
  started.rendezvous->post(own.group.index, call);
  if (!started.rendezvous->all_passed(1)) return;
  engine_.mover().begin(lock, started);
  engine_.wake_members(own.calls);
}

// Whichever end comes last begins. A receive and a send that differ are the receiver's to report.
void ChipCalls::post_message(EngineLock& lock, InFlight& started) {
  const Call& call = *started.call;
  if (!engine_.is_local(call.peer)) return engine_.mover().begin_remote(lock, started);
  const bool sends = call.kind == Kind::send;
  InFlight* const other = engine_.at(call.peer).oldest_message(sends ? Kind::recv : Kind::send, rank_, call.tag);
  if (other == nullptr) return;
  InFlight &send = sends ? started : *other, &recv = sends ? *other : started;
  send.is_taken = recv.is_taken = true;
  if (is_same_movement(*send.call, *recv.call)) {
    send.other_end = &recv;
    recv.other_end = &send;
    engine_.mover().begin_message(send, recv, rank_);
  } else {
    recv.other_call = chip_text(send.chip) + ": " + to_string(*send.call);
  }
  engine_.wake(call.peer);
}

void ChipCalls::finish(Ticket ticket, Stream stream) {
  engine_.mover().enter(rank_);
  EngineLock lock(engine_.mutex);
  const auto finished = std::ranges::find(active_, ticket.number, &InFlight::number);
  MEGACPP_CHECK(finished != active_.end()) << "ticket " << ticket.number << " is not in flight";
  wait_until_complete(lock, *finished);
  engine_.mover().join(lock, *finished, stream);
  if (finished->rendezvous && finished->rendezvous->leave())
    engine_.mover().forget(*finished->group, finished->sequence);
  idle_.splice(idle_.end(), active_, finished);
}

void ChipCalls::wait_until_complete(EngineLock& lock, InFlight& finished) {
  const Waiting waiting(engine_.others(), rank_);
  auto deadline = Clock::now() + engine_.wait_limit();
  int64_t arrivals = finished.all_arrivals();
  while (true) {
    engine_.check_alive(lock, rank_, finished.call->where);
    check_agreement(lock);
    if (finished.is_complete()) return;
    if (advance(lock) || finished.all_arrivals() != arrivals) {
      arrivals = finished.all_arrivals();
      deadline = Clock::now() + engine_.wait_limit();
    } else if (Clock::now() >= deadline) {
      time_out(lock, finished);
    } else {
      sleep(lock, deadline);
    }
  }
}

// Makes the first move that is due among the calls in flight. All of them are looked at, so that chips that finish
// their calls in different orders do not wait for each other.
bool ChipCalls::advance(EngineLock& lock) {
  return std::ranges::any_of(active_, [&](InFlight& each) { return engine_.mover().advance(lock, each); });
}

// One of the chips that wait sends and receives for all and sleeps in between; the others sleep until they are woken.
void ChipCalls::sleep(EngineLock& lock, Clock::time_point deadline) {
  std::optional<std::chrono::microseconds> pause;
  if (engine_.others() != nullptr) pause = engine_.others()->take_turn(lock, rank_);
  if (pause && pause->count() > 0) wake_.wait_until(lock, std::min(deadline, Clock::now() + *pause));
  if (pause) return;
  is_waiting_ = true;
  wake_.wait_until(lock, deadline);
  is_waiting_ = false;
}

InFlight* ChipCalls::in_flight(int64_t number) {
  const auto found = std::ranges::find(active_, number, &InFlight::number);
  return found == active_.end() ? nullptr : &*found;
}

InFlight& ChipCalls::in_flight(const GroupCalls& group, int64_t sequence) {
  const auto found = std::ranges::find_if(
      active_, [&](const InFlight& each) { return each.group == &group && each.sequence == sequence; });
  MEGACPP_CHECK(found != active_.end()) << chip_text(rank_) << " has not started call " << sequence;
  return *found;
}

InFlight* ChipCalls::oldest_message(Kind kind, int64_t peer, int64_t tag) {
  const auto found = std::ranges::find_if(active_, [&](const InFlight& other) {
    return other.call->kind == kind && other.call->peer == peer && other.call->tag == tag && !other.is_taken;
  });
  return found == active_.end() ? nullptr : &*found;
}

void ChipCalls::abort(const std::string& reason) {
  EngineLock lock(engine_.mutex);
  engine_.fail(lock, {rank_, reason});
}

// Every call in flight is checked: the one to be finished may wait for a chip that has stopped at another.
void ChipCalls::check_agreement(EngineLock& lock) {
  for (const InFlight& each : active_)
    if (!each.disagreement().empty()) mismatch(lock, *each.call, each.disagreement());
}

void ChipCalls::mismatch(EngineLock& lock, const Call& own, const std::string& other) {
  engine_.fail_with(lock, rank_, base::Code::E9001, not_the_same_movement(rank_, own, other));
}

// Returns where the call has gone on while other processes were asked.
void ChipCalls::time_out(EngineLock& lock, const InFlight& in_flight) {
  Waited waited{.limit = engine_.wait_limit()};
  for (const int64_t chip : in_flight.awaited()) {
    if (!engine_.is_local(chip)) continue;
    waited.chips.push_back(chip);
    waited.states += "; " + state_text(chip, engine_.at(chip).oldest_call());
  }
  if (engine_.others() != nullptr) {
    engine_.others()->ask(lock, in_flight, waited);
    engine_.check_alive(lock, rank_, in_flight.call->where);
    if (in_flight.is_complete()) return;
  }
  engine_.fail_with(lock, rank_, base::Code::E3102, waited_too_long(rank_, *in_flight.call, waited));
}

}  // namespace megacpp::collectives
