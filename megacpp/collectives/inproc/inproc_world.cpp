// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/inproc/inproc_world.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/collectives/inproc/move.h"
#include "megacpp/collectives/inproc/rendezvous.h"
#include "megacpp/collectives/transport.h"

namespace megacpp::collectives {
namespace {

using Lock = std::unique_lock<std::mutex>;
using Clock = std::chrono::steady_clock;

struct Failure {
  int64_t chip = 0;
  std::string reason;
};

std::string chip_text(int64_t chip) { return "chip " + std::to_string(chip); }

std::string chips_text(const std::vector<int64_t>& chips) {
  std::string text = chips.size() == 1 ? "chip" : "chips";
  for (size_t i = 0; i < chips.size(); ++i) text += (i == 0 ? " " : ", ") + std::to_string(chips[i]);
  return text;
}

void check_is_host(Stream stream) {
  MEGACPP_CHECK(stream.handle == nullptr) << "chips are threads here: the in-process transport knows no other stream";
}

}  // namespace

// What all chips share. One lock guards all of it, and the calls in flight of every chip; it is not held while data
// moves.
class InprocWorld::State {
 public:
  explicit State(std::chrono::milliseconds limit) : wait_limit(limit) {}

  /// The first failure counts. Returns when nobody moves data, so that the buffers of the caller may go.
  void fail(Lock& lock, const Failure& failure);
  void check_alive(Lock& lock, int64_t chip, const std::string& where);
  GroupCalls& group_calls(const std::vector<int64_t>& members);

  /// Runs `move`, which reads the buffers of other chips, without the lock.
  template <typename Move>
  void without_lock(Lock& lock, const Move& move) {
    ++moving_;
    lock.unlock();
    move();
    lock.lock();
    if (--moving_ == 0) still_.notify_all();
  }

  const std::chrono::milliseconds wait_limit;
  std::mutex mutex;
  std::vector<std::unique_ptr<Chip>> chips;

 private:
  std::deque<GroupCalls> groups_;
  std::optional<Failure> failure_;
  int64_t moving_ = 0;             // chips that move data
  std::condition_variable still_;  // none does
};

class InprocWorld::Chip final : public Communicator {
 public:
  Chip(State& world, int64_t rank, int64_t chips);

  int64_t rank() const override { return rank_; }
  int64_t chips() const override { return chips_; }
  const Group& create_group(const std::vector<int64_t>& members) override;
  void reserve_messages(int64_t count) override;
  Ticket start(const Call& call, Stream stream) override;
  void finish(Ticket ticket, Stream stream) override;
  void abort(const std::string& reason) override;

  void wake() { wake_.notify_one(); }

 private:
  struct OwnGroup {
    Group group;
    GroupCalls& calls;
    int64_t started = 0;
  };

  void check_limit(const Call& call) const;
  void post(Lock& lock, const Call& call, InFlight& in_flight);
  bool advance(Lock& lock);
  bool make_step(Lock& lock, InFlight& in_flight);
  bool take_message(Lock& lock, InFlight& recv);
  std::string what_it_does() const;
  InFlight* oldest_send_to(int64_t peer, int64_t tag);
  void wake_group(const Group& group);
  [[noreturn]] void mismatch(Lock& lock, const Call& own, int64_t other_chip, const Call& other);
  [[noreturn]] void time_out(Lock& lock, const InFlight& in_flight);

  State& world_;
  const int64_t rank_;
  const int64_t chips_;
  std::condition_variable wake_;       // something this chip may wait for has happened
  std::deque<OwnGroup> groups_;        // by Group::id
  std::list<InFlight> active_;         // in the order of start
  std::list<InFlight> idle_;           // unused nodes: they change lists, so that starting a call allocates nothing
  std::vector<const void*> operands_;  // scratch of move_data()
  int64_t message_limit_ = kMaxInFlight;
  int64_t next_number_ = 0;
};

void InprocWorld::State::fail(Lock& lock, const Failure& failure) {
  if (!failure_) failure_ = failure;
  for (const auto& chip : chips) chip->wake();
  still_.wait(lock, [this] { return moving_ == 0; });
}

void InprocWorld::State::check_alive(Lock& lock, int64_t chip, const std::string& where) {
  if (!failure_) return;
  still_.wait(lock, [this] { return moving_ == 0; });
  base::raise(base::Code::E3101,
              {.where = chip_text(chip) + ", " + where,
               .got = chip_text(failure_->chip) + " failed: " + failure_->reason,
               .wanted = "every chip to run until the end",
               .next = "mend what " + chip_text(failure_->chip) + " reports; the other chips stopped because of it"});
}

GroupCalls& InprocWorld::State::group_calls(const std::vector<int64_t>& members) {
  const auto known = std::ranges::find(groups_, members, &GroupCalls::members);
  return known != groups_.end() ? *known : groups_.emplace_back(members);
}

InprocWorld::Chip::Chip(State& world, int64_t rank, int64_t chips)
    : world_(world),
      rank_(rank),
      chips_(chips),
      idle_(static_cast<size_t>(kMaxInFlight)),
      operands_(static_cast<size_t>(chips)) {}

const Group& InprocWorld::Chip::create_group(const std::vector<int64_t>& members) {
  for (const OwnGroup& own : groups_)
    if (own.group.members == members) return own.group;
  std::vector<int64_t> sorted = members;
  std::ranges::sort(sorted);
  const auto self = std::ranges::find(members, rank_);
  MEGACPP_CHECK(self != members.end()) << chip_text(rank_) << " is not in its group of " << chips_text(members);
  MEGACPP_CHECK(sorted.front() >= 0 && sorted.back() < chips_ && std::ranges::adjacent_find(sorted) == sorted.end())
      << "not a group of " << chips_ << " chips: " << chips_text(members);
  const Lock lock(world_.mutex);
  idle_.resize(idle_.size() + static_cast<size_t>(kMaxInFlight));
  Group group = {.members = members, .index = self - members.begin(), .id = static_cast<int64_t>(groups_.size())};
  return groups_.emplace_back(OwnGroup{std::move(group), world_.group_calls(members)}).group;
}

void InprocWorld::Chip::reserve_messages(int64_t count) {
  const Lock lock(world_.mutex);
  idle_.resize(idle_.size() + static_cast<size_t>(count));
  message_limit_ += count;
}

Ticket InprocWorld::Chip::start(const Call& call, Stream stream) {
  check_call(call, chips_);
  check_is_host(stream);
  Lock lock(world_.mutex);
  world_.check_alive(lock, rank_, call.where);
  check_limit(call);
  InFlight in_flight = {.number = next_number_, .call = &call};
  post(lock, call, in_flight);
  active_.splice(active_.end(), idle_, idle_.begin());
  active_.back() = in_flight;
  return {next_number_++};
}

void InprocWorld::Chip::check_limit(const Call& call) const {
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
void InprocWorld::Chip::post(Lock& lock, const Call& call, InFlight& in_flight) {
  if (is_point_to_point(call.kind)) {
    world_.chips[static_cast<size_t>(call.peer)]->wake();
    return;
  }
  OwnGroup& own = groups_[static_cast<size_t>(call.group->id)];
  in_flight.sequence = own.started++;
  in_flight.rendezvous = &own.calls.rendezvous(in_flight.sequence);
  if (const Call* other = in_flight.rendezvous->posted(); other && !is_same_movement(call, *other))
    mismatch(lock, call, other->group->members[static_cast<size_t>(other->group->index)], *other);
  in_flight.rendezvous->post(own.group.index, call);
  if (in_flight.rendezvous->all_passed(1)) wake_group(own.group);
}

void InprocWorld::Chip::finish(Ticket ticket, Stream stream) {
  check_is_host(stream);
  Lock lock(world_.mutex);
  const auto in_flight = std::ranges::find(active_, ticket.number, &InFlight::number);
  MEGACPP_CHECK(in_flight != active_.end()) << "ticket " << ticket.number << " is not in flight";
  auto deadline = Clock::now() + world_.wait_limit;
  while (true) {
    world_.check_alive(lock, rank_, in_flight->call->where);
    if (in_flight->is_complete()) break;
    if (advance(lock))
      deadline = Clock::now() + world_.wait_limit;
    else if (Clock::now() >= deadline)
      time_out(lock, *in_flight);
    else
      wake_.wait_until(lock, deadline);
  }
  if (in_flight->rendezvous) in_flight->rendezvous->leave();
  idle_.splice(idle_.end(), active_, in_flight);
}

// Makes the first move that is due among the calls in flight. All of them are looked at, so that chips that finish
// their calls in different orders do not wait for each other; and oldest first under one lock, so that of two receives
// with the same tag the older one takes the older message.
bool InprocWorld::Chip::advance(Lock& lock) {
  return std::ranges::any_of(active_, [&](InFlight& in_flight) {
    return in_flight.rendezvous ? make_step(lock, in_flight) : take_message(lock, in_flight);
  });
}

bool InprocWorld::Chip::make_step(Lock& lock, InFlight& in_flight) {
  Rendezvous& rendezvous = *in_flight.rendezvous;
  const Group& group = *in_flight.call->group;
  if (!rendezvous.is_step_due(group.index)) return false;
  const int64_t step = rendezvous.gates_passed(group.index);
  world_.without_lock(
      lock, [&] { move_data({.calls = rendezvous.calls(), .index = group.index, .operands = operands_}, step); });
  rendezvous.pass(group.index);
  if (rendezvous.all_passed(step + 1)) wake_group(group);
  return true;
}

bool InprocWorld::Chip::take_message(Lock& lock, InFlight& recv) {
  if (recv.call->kind != Kind::recv || recv.is_moved) return false;
  Chip& sender = *world_.chips[static_cast<size_t>(recv.call->peer)];
  InFlight* send = sender.oldest_send_to(rank_, recv.call->tag);
  if (!send) return false;
  if (!is_same_movement(*send->call, *recv.call)) mismatch(lock, *recv.call, sender.rank_, *send->call);
  send->is_taken = true;
  world_.without_lock(lock, [&] { receive(*send->call, *recv.call); });
  send->is_moved = recv.is_moved = true;
  sender.wake();
  return true;
}

InFlight* InprocWorld::Chip::oldest_send_to(int64_t peer, int64_t tag) {
  const auto send = std::ranges::find_if(active_, [&](const InFlight& other) {
    return other.call->kind == Kind::send && other.call->peer == peer && other.call->tag == tag && !other.is_taken;
  });
  return send == active_.end() ? nullptr : &*send;
}

void InprocWorld::Chip::wake_group(const Group& group) {
  for (const int64_t member : group.members)
    if (member != rank_) world_.chips[static_cast<size_t>(member)]->wake();
}

void InprocWorld::Chip::abort(const std::string& reason) {
  Lock lock(world_.mutex);
  world_.fail(lock, {rank_, reason});
}

void InprocWorld::Chip::mismatch(Lock& lock, const Call& own, int64_t other_chip, const Call& other) {
  const std::string got = chip_text(rank_) + ": " + to_string(own);
  const std::string wanted = "the same movement as " + chip_text(other_chip) + ": " + to_string(other);
  world_.fail(lock, {rank_, got + "; wanted " + wanted});
  base::raise(base::Code::E9001,
              {.where = chip_text(rank_) + ", " + own.where,
               .got = got,
               .wanted = wanted,
               .next = "this is a defect of megacpp: please report it with the command and the recipe"});
}

std::string InprocWorld::Chip::what_it_does() const {
  return chip_text(rank_) +
         (active_.empty() ? " waits for nobody" : " has in flight " + to_string(*active_.front().call));
}

void InprocWorld::Chip::time_out(Lock& lock, const InFlight& in_flight) {
  std::ostringstream waited;
  waited << "waited " << std::chrono::duration<double>(world_.wait_limit).count() << " s for "
         << chips_text(in_flight.awaited());
  for (const int64_t chip : in_flight.awaited())
    waited << "; " << world_.chips[static_cast<size_t>(chip)]->what_it_does();
  const std::string call = to_string(*in_flight.call);
  world_.fail(lock, {rank_, waited.str() + ": " + call});
  base::raise(base::Code::E3102,
              {.where = chip_text(rank_) + ", " + in_flight.call->where,
               .got = waited.str(),
               .wanted = call,
               .next = "a chip that waits for nobody computes or hangs; raise train.wait_limit if it is only slow"});
}

InprocWorld::InprocWorld(const WorldOptions& options)
    : local_chips_(static_cast<size_t>(std::max<int64_t>(options.chips, 0))),
      state_(std::make_unique<State>(options.wait_limit)) {
  MEGACPP_CHECK(options.chips >= 1) << "a mesh needs a chip, got " << options.chips;
  std::iota(local_chips_.begin(), local_chips_.end(), int64_t{0});
  for (const int64_t chip : local_chips_) state_->chips.push_back(std::make_unique<Chip>(*state_, chip, options.chips));
}

InprocWorld::~InprocWorld() = default;

const Properties& InprocWorld::properties() const {
  static const Properties properties = inproc_transport().properties;
  return properties;
}

Communicator& InprocWorld::communicator(int64_t chip) { return *state_->chips.at(static_cast<size_t>(chip)); }

void InprocWorld::abort(int64_t chip, const std::string& reason) { communicator(chip).abort(reason); }

std::vector<std::string> InprocWorld::gather(const std::string& own) {
  Lock lock(state_->mutex);
  state_->check_alive(lock, local_chips_.front(), "agreement of all processes");
  return {own};
}

Transport inproc_transport() {
  return {.properties = {.name = "inproc", .has_fixed_order_sums = true, .ordering = Ordering::host},
          .doc = "chips are threads of one process and read each other's buffers",
          .workspace_bytes = [](const Call&, int64_t) { return int64_t{0}; },
          .make = [](const WorldOptions& options) { return std::make_unique<InprocWorld>(options); }};
}

}  // namespace megacpp::collectives
