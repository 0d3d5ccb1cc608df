// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/inproc/local_chips.h"

#include <algorithm>
#include <list>
#include <span>
#include <thread>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/collectives/inproc/move.h"
#include "megacpp/collectives/processes/crossings.h"

namespace megacpp::collectives {
namespace {

// For another process to say which of several failures came first: it hears of them at once, or is gone itself.
constexpr std::chrono::seconds kDecisionLimit(5);

void check_is_host(Stream stream) {
  MEGACPP_CHECK(stream.handle == nullptr) << "chips are threads here: this transport knows no other stream";
}

}  // namespace

class LocalChips::Chip final : public Communicator {
 public:
  Chip(LocalChips& world, int64_t rank)
      : world_(world),
        rank_(rank),
        idle_(static_cast<size_t>(kMaxInFlight)),
        pointers_(static_cast<size_t>(2 * world.chips())),
        remotes_(static_cast<size_t>(world.chips())) {}

  int64_t rank() const override { return rank_; }
  int64_t chips() const override { return world_.chips(); }
  const Group& create_group(const std::vector<int64_t>& members) override;
  void reserve_messages(int64_t count) override;
  Ticket start(const Call& call, Stream stream) override;
  void finish(Ticket ticket, Stream stream) override;
  void abort(const std::string& reason) override;

  void wake() { wake_.notify_one(); }
  bool is_waiting() const { return is_waiting_; }
  std::string what_it_does() const;
  InFlight* in_flight(int64_t number);
  InFlight* oldest_message(Kind kind, int64_t peer, int64_t tag);
  const std::list<InFlight>& active() const { return active_; }

 private:
  struct OwnGroup {
    Group group;
    GroupCalls& calls;
    int64_t started = 0;
  };

  void check_limit(const Call& call) const;
  void post(Lock& lock, InFlight& in_flight);
  void post_message(const InFlight& in_flight);
  bool advance(Lock& lock);
  bool make_step(Lock& lock, InFlight& in_flight);
  bool take_message(Lock& lock, InFlight& recv);
  bool read_message(Lock& lock, InFlight& recv);
  void wait(Lock& lock, Crossings::Driver& driver, Clock::time_point deadline);
  void leave(InFlight& in_flight);
  void wake_group(const GroupCalls& calls);
  void check_agreement(Lock& lock);
  [[noreturn]] void mismatch(Lock& lock, const Call& own, const std::string& other);
  void time_out(Lock& lock, const InFlight& in_flight);
  [[noreturn]] void fail_with(Lock& lock, base::Code code, const base::Problem& problem);

  LocalChips& world_;
  const int64_t rank_;
  std::condition_variable wake_;       // something this chip may wait for has happened
  std::deque<OwnGroup> groups_;        // by Group::id
  std::list<InFlight> active_;         // in the order of start
  std::list<InFlight> idle_;           // unused nodes: they change lists, so that starting a call allocates nothing
  bool is_waiting_ = false;            // asleep until it is woken
  std::vector<const void*> pointers_;  // scratch of move_data(), like the next
  std::vector<Remote> remotes_;        // by index
  int64_t message_limit_ = kMaxInFlight;
  int64_t next_number_ = 0;
};

LocalChips::LocalChips(Options options) : options_(std::move(options)) {
  MEGACPP_CHECK(options_.chips >= 1) << "a mesh needs a chip, got " << options_.chips;
  chips_.resize(static_cast<size_t>(options_.chips));
  for (const int64_t chip : options_.local) chips_[static_cast<size_t>(chip)] = std::make_unique<Chip>(*this, chip);
}

LocalChips::~LocalChips() = default;

Communicator& LocalChips::communicator(int64_t chip) {
  MEGACPP_CHECK(is_local(chip)) << chip_text(chip) << " is not local";
  return at(chip);
}

void LocalChips::fail(Lock& lock, const Failure& failure) {
  if (!has_failed()) {
    proposed_ = failure;
    if (crossings_ != nullptr)
      crossings_->propose(failure);
    else
      decide(failure);
  }
  wake_all();
  still_.wait(lock, [this] { return moving_ == 0; });
}

void LocalChips::decide(const Failure& failure) {
  if (decided_) return;
  decided_ = failure;
  decision_.notify_all();
  wake_all();
}

const Failure& LocalChips::decided_failure(Lock& lock) {
  // Cut off from the process that decides, this one must end by itself, and soon.
  if (crossings_ != nullptr) crossings_->hand_over();
  if (crossings_ == nullptr || !crossings_->is_arbiter_silent())
    decision_.wait_for(lock, kDecisionLimit, [this] { return decided_.has_value(); });
  if (!decided_) decide(*proposed_);
  return *decided_;
}

void LocalChips::check_alive(Lock& lock, int64_t chip, const std::string& where) {
  if (!has_failed()) return;
  const Failure& failure = decided_failure(lock);
  still_.wait(lock, [this] { return moving_ == 0; });
  const std::string host = crossings_ != nullptr ? crossings_->place_of(failure.chip) : "";
  base::raise(base::Code::E3101, other_chip_failed(chip, where, failure, host));
}

GroupCalls& LocalChips::group_calls(const std::vector<int64_t>& members) {
  const auto known = std::ranges::find(groups_, members, &GroupCalls::members);
  if (known != groups_.end()) return *known;
  GroupCalls& calls = groups_.emplace_back(members, options_.local);
  if (calls.crosses()) crossings_->open(calls);
  return calls;
}

bool LocalChips::is_local(int64_t chip) const {
  return chip >= 0 && chip < chips() && chips_[static_cast<size_t>(chip)] != nullptr;
}

void LocalChips::wake(int64_t chip) { at(chip).wake(); }

void LocalChips::wake_all() {
  for (const int64_t chip : options_.local) wake(chip);
}

bool LocalChips::wake_waiting() {
  const auto waiting = std::ranges::find_if(options_.local, [this](int64_t chip) { return at(chip).is_waiting(); });
  if (waiting == options_.local.end()) return false;
  wake(*waiting);
  return true;
}

std::string LocalChips::what_it_does(int64_t chip) const { return at(chip).what_it_does(); }

InFlight* LocalChips::in_flight(int64_t chip, int64_t number) { return at(chip).in_flight(number); }

InFlight* LocalChips::oldest_receive(int64_t chip, int64_t from, int64_t tag) {
  return at(chip).oldest_message(Kind::recv, from, tag);
}

const InFlight* LocalChips::oldest_message_with(const std::vector<int64_t>& chips) const {
  for (const int64_t chip : options_.local)
    for (const InFlight& each : at(chip).active())
      if (!each.rendezvous && !each.is_moved && std::ranges::binary_search(chips, each.call->peer)) return &each;
  return nullptr;
}

const Group& LocalChips::Chip::create_group(const std::vector<int64_t>& members) {
  for (const OwnGroup& own : groups_)
    if (own.group.members == members) return own.group;
  check_group(members, rank_, chips());
  const auto self = std::ranges::find(members, rank_);
  const Lock lock(world_.mutex);
  idle_.resize(idle_.size() + static_cast<size_t>(kMaxInFlight));
  Group group = {.members = members, .index = self - members.begin(), .id = static_cast<int64_t>(groups_.size())};
  return groups_.emplace_back(OwnGroup{std::move(group), world_.group_calls(members)}).group;
}

void LocalChips::Chip::reserve_messages(int64_t count) {
  const Lock lock(world_.mutex);
  idle_.resize(idle_.size() + static_cast<size_t>(count));
  message_limit_ += count;
}

Ticket LocalChips::Chip::start(const Call& call, Stream stream) {
  check_call(call, chips());
  check_is_host(stream);
  Lock lock(world_.mutex);
  world_.check_alive(lock, rank_, call.where);
  check_limit(call);
  active_.splice(active_.end(), idle_, idle_.begin());
  active_.back() = {.number = next_number_++, .call = &call};
  const Ticket ticket = {active_.back().number};
  post(lock, active_.back());
  return ticket;
}

void LocalChips::Chip::check_limit(const Call& call) const {
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

// Makes the call known to the chips it needs.
void LocalChips::Chip::post(Lock& lock, InFlight& in_flight) {
  const Call& call = *in_flight.call;
  if (is_point_to_point(call.kind)) return post_message(in_flight);
  OwnGroup& own = groups_[static_cast<size_t>(call.group->id)];
  in_flight.sequence = own.started++;
  in_flight.group = &own.calls;
  in_flight.rendezvous = &own.calls.rendezvous(in_flight.sequence);
  if (const Call* other = in_flight.rendezvous->posted(); other && !is_same_movement(call, *other))
    mismatch(lock, call,
             chip_text(other->group->members[static_cast<size_t>(other->group->index)]) + ": " + to_string(*other));
  in_flight.rendezvous->post(own.group.index, call);
  if (!in_flight.rendezvous->all_passed(1)) return;
  if (own.calls.crossing) world_.crossings_->begin(*own.calls.crossing, in_flight.sequence);
  wake_group(own.calls);
}

void LocalChips::Chip::post_message(const InFlight& in_flight) {
  const Call& call = *in_flight.call;
  if (world_.is_local(call.peer)) return world_.wake(call.peer);
  if (call.kind == Kind::send)
    world_.crossings_->offer(rank_, in_flight);
  else
    world_.crossings_->match(rank_, call.peer, call.tag);
}

void LocalChips::Chip::finish(Ticket ticket, Stream stream) {
  check_is_host(stream);
  Lock lock(world_.mutex);
  const auto in_flight = std::ranges::find(active_, ticket.number, &InFlight::number);
  MEGACPP_CHECK(in_flight != active_.end()) << "ticket " << ticket.number << " is not in flight";
  auto deadline = Clock::now() + world_.wait_limit();
  int64_t arrivals = in_flight->arrivals();
  Crossings::Driver driver(world_.crossings_, rank_);
  while (true) {
    world_.check_alive(lock, rank_, in_flight->call->where);
    check_agreement(lock);
    if (in_flight->is_complete()) break;
    if (advance(lock) || in_flight->arrivals() != arrivals) {
      arrivals = in_flight->arrivals();
      deadline = Clock::now() + world_.wait_limit();
    } else if (Clock::now() >= deadline) {
      time_out(lock, *in_flight);
    } else {
      wait(lock, driver, deadline);
    }
  }
  leave(*in_flight);
  idle_.splice(idle_.end(), active_, in_flight);
}

// Of chips that wait one sends and receives for all; it sleeps in between, the others until they are woken.
void LocalChips::Chip::wait(Lock& lock, Crossings::Driver& driver, Clock::time_point deadline) {
  if (!driver.claim()) {
    is_waiting_ = true;
    wake_.wait_until(lock, deadline);
    is_waiting_ = false;
    return;
  }
  if (driver.take_turn(lock)) return;
  if (const std::chrono::microseconds pause = driver.pause(); pause.count() > 0) {
    wake_.wait_until(lock, std::min(deadline, Clock::now() + pause));
    return;
  }
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
}

void LocalChips::Chip::leave(InFlight& in_flight) {
  if (in_flight.rendezvous && in_flight.rendezvous->leave() && in_flight.group->crossing)
    in_flight.group->crossing->reset(in_flight.sequence);
}

// Makes the first move that is due among the calls in flight. All of them are looked at, so that chips that finish
// their calls in different orders do not wait for each other; and oldest first under one lock, so that of two receives
// with the same tag the older one takes the older message.
bool LocalChips::Chip::advance(Lock& lock) {
  return std::ranges::any_of(active_, [&](InFlight& in_flight) {
    return in_flight.rendezvous ? make_step(lock, in_flight) : take_message(lock, in_flight);
  });
}

bool LocalChips::Chip::make_step(Lock& lock, InFlight& in_flight) {
  Rendezvous& rendezvous = *in_flight.rendezvous;
  const Group& group = *in_flight.call->group;
  if (!rendezvous.is_step_due(group.index)) return false;
  const int64_t step = rendezvous.gates_passed(group.index);
  CrossingGroup* const crossing = in_flight.group->crossing;
  if (crossing && !crossing->may_step(in_flight.sequence, step)) return false;
  Member member = {.calls = rendezvous.calls(), .index = group.index};
  if (crossing) member.terms = crossing->terms();
  member.pointers = pointers_;
  try {
    if (crossing && crossing->reads_buffers()) {
      const std::span<Remote> remotes = std::span(remotes_).first(group.members.size());
      crossing->find_remotes(in_flight.sequence, remotes);
      member.remotes = remotes;
    }
    world_.without_lock(lock, [&] { move_data(member, step); });
  } catch (const PeerGone& gone) {
    crossing->exchange(in_flight.sequence).is_broken = true;
    world_.crossings_->break_off(gone, *in_flight.call);
    return false;
  }
  rendezvous.pass(group.index);
  if (!rendezvous.all_passed(step + 1)) return true;
  wake_group(*in_flight.group);
  if (crossing) world_.crossings_->pass(*crossing, in_flight.sequence, step + 1);
  return true;
}

bool LocalChips::Chip::take_message(Lock& lock, InFlight& recv) {
  if (recv.call->kind != Kind::recv || recv.is_moved) return false;
  if (!world_.is_local(recv.call->peer)) return read_message(lock, recv);
  Chip& sender = world_.at(recv.call->peer);
  InFlight* send = sender.oldest_message(Kind::send, rank_, recv.call->tag);
  if (!send) return false;
  if (!is_same_movement(*send->call, *recv.call))
    mismatch(lock, *recv.call, chip_text(sender.rank_) + ": " + to_string(*send->call));
  send->is_taken = true;
  world_.without_lock(lock, [&] { receive(*send->call, *recv.call); });
  send->is_moved = recv.is_moved = true;
  sender.wake();
  return true;
}

bool LocalChips::Chip::read_message(Lock& lock, InFlight& recv) {
  if (recv.sent.peer == nullptr) return false;
  try {
    const Remote send = world_.crossings_->find_remote(recv);
    world_.without_lock(lock, [&] { receive(send, *recv.call); });
  } catch (const PeerGone& gone) {
    recv.sent = {};
    world_.crossings_->break_off(gone, *recv.call);
    return false;
  }
  recv.is_moved = true;
  world_.crossings_->take(recv);
  return true;
}

InFlight* LocalChips::Chip::oldest_message(Kind kind, int64_t peer, int64_t tag) {
  const auto found = std::ranges::find_if(active_, [&](const InFlight& other) {
    return other.call->kind == kind && other.call->peer == peer && other.call->tag == tag && !other.is_taken;
  });
  return found == active_.end() ? nullptr : &*found;
}

InFlight* LocalChips::Chip::in_flight(int64_t number) {
  const auto found = std::ranges::find(active_, number, &InFlight::number);
  return found == active_.end() ? nullptr : &*found;
}

void LocalChips::Chip::wake_group(const GroupCalls& calls) {
  for (const int64_t index : calls.local()) {
    const int64_t member = calls.members()[static_cast<size_t>(index)];
    if (member != rank_) world_.wake(member);
  }
}

void LocalChips::Chip::abort(const std::string& reason) {
  Lock lock(world_.mutex);
  world_.fail(lock, {rank_, reason});
}

// Of all calls in flight: the one to be finished may wait for a chip that has stopped at another.
void LocalChips::Chip::check_agreement(Lock& lock) {
  for (const InFlight& each : active_)
    if (!each.disagreement().empty()) mismatch(lock, *each.call, each.disagreement());
}

// Of failures at once in several processes one counts, and whoever has another learns of it.
void LocalChips::Chip::fail_with(Lock& lock, base::Code code, const base::Problem& problem) {
  const Failure own = {rank_, reason_of(code, problem)};
  world_.fail(lock, own);
  if (world_.decided_failure(lock) != own) world_.check_alive(lock, rank_, problem.where);
  base::raise(code, problem);
}

void LocalChips::Chip::mismatch(Lock& lock, const Call& own, const std::string& other) {
  fail_with(lock, base::Code::E9001, not_the_same_movement(rank_, own, other));
}

std::string LocalChips::Chip::what_it_does() const {
  return state_text(rank_, active_.empty() ? nullptr : active_.front().call);
}

// Returns where the call has gone on while other processes were asked.
void LocalChips::Chip::time_out(Lock& lock, const InFlight& in_flight) {
  Awaited awaited;
  for (const int64_t chip : in_flight.awaited()) {
    if (!world_.is_local(chip)) continue;
    awaited.chips.push_back(chip);
    awaited.states += "; " + world_.what_it_does(chip);
  }
  if (world_.crossings_ != nullptr) {
    world_.crossings_->ask(lock, in_flight, awaited);
    world_.check_alive(lock, rank_, in_flight.call->where);
    if (in_flight.is_complete()) return;
  }
  fail_with(lock, base::Code::E3102,
            waited_too_long(rank_, *in_flight.call,
                            {.limit = world_.wait_limit(), .chips = awaited.chips, .states = awaited.states}));
}

}  // namespace megacpp::collectives
