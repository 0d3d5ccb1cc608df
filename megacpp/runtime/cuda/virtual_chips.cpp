// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/virtual_chips.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <thread>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/runtime/cuda/device_communicator.h"

namespace megacpp::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

using collectives::Call;
using collectives::Communicator;
using collectives::Kind;
using collectives::Ticket;

/// A call that a chip has started and not finished. Its event, of the chip's GPU, first marks that the chip is ready;
/// once the movement is enqueued, which waits for the mark, the same event marks its end.
struct VirtualChips::InFlight {
  explicit InFlight(const Driver& driver) : event(driver) {}

  OwnedEvent event;
  int64_t number = 0;  // of its ticket
  const Call* call = nullptr;
  Group* group = nullptr;         // of a collective
  int64_t sequence = 0;           // of a collective: counts the calls of its group
  bool is_marked = false;         // ready on a stream; else at once
  bool is_enqueued = false;       // the movement is on its way
  bool is_taken = false;          // a send or receive that has found its other end
  std::string disagreement = {};  // of a receive: what its send is, where that is another movement
};

/// Makes a chip's own GPU current again when it goes: who enqueues for chips on others, or makes streams there, enters
/// those, and may end anywhere by a call that fails.
class VirtualChips::OwnGpuAgain {
 public:
  explicit OwnGpuAgain(const Gpu& own) : own_(own) {}
  ~OwnGpuAgain() { own_.driver().ctx_set_current.attempt(own_.context()); }
  OwnGpuAgain(const OwnGpuAgain&) = delete;
  OwnGpuAgain& operator=(const OwnGpuAgain&) = delete;

 private:
  const Gpu& own_;
};

class VirtualChips::Chip final : public DeviceCommunicator {
 public:
  /// Its GPU is current.
  Chip(VirtualChips& world, int64_t rank)
      : world_(world), rank_(rank), gpu_(world.gpu_of(rank)), messages_(world.driver()) {
    if (world_.has_several_gpus()) sent_.emplace(world_.driver());
    add_idle(collectives::kMaxInFlight);
  }

  int64_t rank() const override { return rank_; }
  int64_t chips() const override { return world_.chips(); }
  const collectives::Group& create_group(const std::vector<int64_t>& members) override;
  void reserve_messages(int64_t count) override;
  Ticket start(const Call& call, collectives::Stream stream) override;
  void finish(Ticket ticket, collectives::Stream stream) override;
  void abort(const std::string& reason) override;
  void wait(Stream* stream) override;
  // Members read each other's buffers.
  int64_t workspace_bytes(const Call&, int64_t) const override { return 0; }

  void wake() { wake_.notify_one(); }
  size_t gpu() const { return gpu_; }
  /// Where messages to this chip move.
  Stream* messages() const { return messages_.get(); }
  /// Where messages from this chip end that another GPU moves. There are several.
  Stream* sent() const { return sent_->get(); }
  const Call* oldest_call() const { return active_.empty() ? nullptr : active_.front().call; }
  InFlight& in_flight(const Group& group, int64_t sequence);
  InFlight* oldest_message(Kind kind, int64_t peer, int64_t tag);

 private:
  struct OwnGroup {
    collectives::Group group;
    Group& shared;
    int64_t started = 0;
  };

  const Gpu& own_gpu() const { return *world_.options_.gpus[gpu_]; }
  void enter() const { world_.enter(gpu_); }
  Group& shared_group(const std::vector<int64_t>& members) const;
  void add_idle(int64_t count);
  void check_limit(const Call& call) const;
  void post_collective(InFlight& in_flight);
  void post_message(InFlight& in_flight);
  void wait_until_enqueued(Lock& lock, const InFlight& in_flight);
  void wait_for_event(const InFlight& finished);
  void check_agreement();
  template <typename Query>
  void wait_until(const Query& query, const std::string& where);
  void time_out(const InFlight& in_flight);
  void time_out_device(const std::string& where);
  [[noreturn]] void fail_with(base::Code code, const base::Problem& problem);

  VirtualChips& world_;
  const int64_t rank_;
  const size_t gpu_;
  const OwnedStream messages_;
  std::optional<OwnedStream> sent_;
  std::condition_variable wake_;  // something this chip may wait for has happened
  std::deque<OwnGroup> groups_;   // by Group::id
  std::list<InFlight> active_;    // in the order of start
  std::list<InFlight> idle_;      // they change lists, so that starting a call allocates nothing
  int64_t message_limit_ = collectives::kMaxInFlight;
  int64_t next_number_ = 0;
};

// ---- All chips ----

VirtualChips::VirtualChips(VirtualChipsOptions options) : options_(std::move(options)) {
  MEGACPP_REQUIRE(chips() <= kMaxGroupMembers, E1505,
                  ({.where = "layout",
                    .got = std::to_string(chips()) + " chips in one process",
                    .wanted = "at most " + std::to_string(kMaxGroupMembers),
                    .next = "take fewer chips, or one GPU for each of several processes"}));
  for (const std::shared_ptr<Gpu>& gpu : options_.gpus) {
    gpu->attach();
    kernels_.emplace_back(gpu->toolbox());
  }
  scratch_.resize(2 * static_cast<size_t>(chips()));
  for (int64_t chip = 0; chip < chips(); ++chip) {
    enter(gpu_of(chip));
    chips_.push_back(std::make_unique<Chip>(*this, chip));
  }
}

// Streams and events go from any context.
VirtualChips::~VirtualChips() { driver().ctx_set_current.attempt(options_.gpus.front()->context()); }

collectives::Properties virtual_chips_properties() {
  return {.name = "cuda", .has_fixed_order_sums = true, .ordering = collectives::Ordering::stream};
}

const collectives::Properties& VirtualChips::properties() const {
  static const collectives::Properties properties = virtual_chips_properties();
  return properties;
}

Communicator& VirtualChips::communicator(int64_t chip) {
  MEGACPP_CHECK(chip >= 0 && chip < chips()) << "there is no " << collectives::chip_text(chip);
  return at(chip);
}

// One process is all there are.
std::vector<std::string> VirtualChips::gather(const std::string& own) {
  const Lock lock(mutex_);
  check_alive(local_chips().front(), "agreement of all processes");
  return {own};
}

VirtualChips::Group& VirtualChips::group_of(const std::vector<int64_t>& members) {
  const auto known = std::ranges::find_if(groups_, [&](const Group& g) { return g.calls.members() == members; });
  return known != groups_.end() ? *known : groups_.emplace_back(make_group(members));
}

VirtualChips::Group VirtualChips::make_group(const std::vector<int64_t>& members) const {
  Group group{.calls = collectives::GroupCalls(members, local_chips()), .parts = {}};
  for (int64_t index = 0; index < std::ssize(members); ++index) {
    const size_t gpu = gpu_of(members[static_cast<size_t>(index)]);
    if (group.parts.empty() || group.parts.back().gpu != gpu) {
      enter(gpu);
      group.parts.push_back({.gpu = gpu,
                             .members = {.begin = index, .end = index},
                             .stream = OwnedStream(driver()),
                             .moved = OwnedEvent(driver())});
    }
    group.parts.back().members.end = index + 1;
  }
  return group;
}

const VirtualChips::GpuPart& VirtualChips::Group::part_of(int64_t index) const {
  return *std::ranges::find_if(parts, [index](const GpuPart& part) { return index < part.members.end; });
}

void VirtualChips::enqueue(Group& group, int64_t sequence) {
  for (const GpuPart& part : group.parts) move_part(part, group, sequence);
  join_parts(group);
  const std::vector<int64_t>& members = group.calls.members();
  for (int64_t index = 0; index < std::ssize(members); ++index) {
    Chip& chip = at(members[static_cast<size_t>(index)]);
    InFlight& each = chip.in_flight(group, sequence);
    driver().event_record(each.event.get(), group.part_of(index).stream.get());
    each.is_enqueued = true;
    chip.wake();
  }
}

void VirtualChips::move_part(const GpuPart& part, Group& group, int64_t sequence) {
  enter(part.gpu);
  Stream* const stream = part.stream.get();
  for (const int64_t member : group.calls.members())
    if (const InFlight& each = at(member).in_flight(group, sequence); each.is_marked)
      driver().stream_wait_event(stream, each.event.get(), 0);
  const auto launch = [&](const CollectiveParams& table) { kernels_[part.gpu].run(table, stream); };
  tabulate(group.calls.rendezvous(sequence).calls(), part.members, scratch_, launch);
}

// A member's operand is free when all GPUs have read it, and a sum is whole when all have added theirs.
void VirtualChips::join_parts(const Group& group) const {
  if (group.parts.size() == 1) return;
  for (const GpuPart& part : group.parts) driver().event_record(part.moved.get(), part.stream.get());
  for (const GpuPart& part : group.parts)
    for (const GpuPart& other : group.parts)
      if (&part != &other) driver().stream_wait_event(part.stream.get(), other.moved.get(), 0);
}

void VirtualChips::enqueue_message(InFlight& send, InFlight& recv) {
  Chip &receiver = at(send.call->peer), &sender = at(recv.call->peer);
  Stream* const stream = receiver.messages();
  enter(receiver.gpu());
  for (const InFlight* end : {&send, &recv})
    if (end->is_marked) driver().stream_wait_event(stream, end->event.get(), 0);
  const auto launch = [&](const CollectiveParams& table) { kernels_[receiver.gpu()].run(table, stream); };
  tabulate_message(*send.call, *recv.call, launch);
  driver().event_record(recv.event.get(), stream);
  driver().event_record(send.event.get(), sender_stream(sender, receiver, recv));
  send.is_enqueued = recv.is_enqueued = true;
  sender.wake();
  receiver.wake();
}

// One of the sender's GPU that is behind the movement.
Stream* VirtualChips::sender_stream(const Chip& sender, const Chip& receiver, const InFlight& recv) const {
  if (sender.gpu() == receiver.gpu()) return receiver.messages();
  driver().stream_wait_event(sender.sent(), recv.event.get(), 0);
  return sender.sent();
}

// The first failure counts. Nothing is enqueued after it, and what is under way ends by itself: when this returns
// nobody reads the buffers of others.
void VirtualChips::fail(const collectives::Failure& failure) {
  if (!failure_) {
    failure_ = failure;
    end_by_ = Clock::now() + kEndLimit;
    has_failed_ = true;
    options_.control->abort(failure.chip, failure.reason);
  }
  for (const std::unique_ptr<Chip>& chip : chips_) chip->wake();
  for (const Group& group : groups_)
    for (const GpuPart& part : group.parts) wait_for_end(part.stream.get());
  for (const std::unique_ptr<Chip>& chip : chips_) wait_for_end(chip->messages());
}

// A device that has failed answers at once. Of several GPUs the stream of one that is well may wait for an event of one
// that is lost, and never end: all of them together have a limit, however many chips report.
void VirtualChips::wait_for_end(Stream* stream) const {
  if (!has_several_gpus()) {
    driver().stream_synchronize.attempt(stream);
    return;
  }
  while (driver().stream_query.attempt(stream) == kNotReady && Clock::now() < end_by_)
    std::this_thread::sleep_for(kLookEvery);
}

void VirtualChips::check_alive(int64_t chip, const std::string& where) const {
  if (failure_) base::raise(base::Code::E3101, collectives::other_chip_failed(chip, where, *failure_, ""));
}

// ---- One chip ----

void VirtualChips::Chip::add_idle(int64_t count) {
  for (int64_t i = 0; i < count; ++i) idle_.emplace_back(world_.driver());
}

const collectives::Group& VirtualChips::Chip::create_group(const std::vector<int64_t>& members) {
  for (const OwnGroup& own : groups_)
    if (own.group.members == members) return own.group;
  collectives::check_group(members, rank_, chips());
  const Lock lock(world_.mutex_);
  Group& shared = shared_group(members);
  add_idle(collectives::kMaxInFlight);
  collectives::Group group = {.members = members,
                              .index = std::ranges::find(members, rank_) - members.begin(),
                              .id = static_cast<int64_t>(groups_.size())};
  return groups_.emplace_back(OwnGroup{std::move(group), shared}).group;
}

VirtualChips::Group& VirtualChips::Chip::shared_group(const std::vector<int64_t>& members) const {
  const OwnGpuAgain again(own_gpu());
  return world_.group_of(members);
}

void VirtualChips::Chip::reserve_messages(int64_t count) {
  enter();
  const Lock lock(world_.mutex_);
  add_idle(count);
  message_limit_ += count;
}

Ticket VirtualChips::Chip::start(const Call& call, collectives::Stream stream) {
  collectives::check_call(call, chips());
  enter();
  const OwnGpuAgain again(own_gpu());
  const Lock lock(world_.mutex_);
  world_.check_alive(rank_, call.where);
  check_limit(call);
  InFlight& started = idle_.front();
  started.call = &call;
  started.number = next_number_++;
  started.group = nullptr;
  started.is_enqueued = started.is_taken = false;
  started.is_marked = stream.handle != nullptr;
  if (started.is_marked) world_.driver().event_record(started.event.get(), static_cast<Stream*>(stream.handle));
  active_.splice(active_.end(), idle_, idle_.begin());
  collectives::is_point_to_point(call.kind) ? post_message(started) : post_collective(started);
  return {started.number};
}

void VirtualChips::Chip::check_limit(const Call& call) const {
  int64_t in_flight = 0, limit = collectives::kMaxInFlight;
  if (collectives::is_point_to_point(call.kind)) {
    in_flight = std::ranges::count_if(active_, [](const InFlight& other) { return other.group == nullptr; });
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

// Whoever completes the group's call enqueues it for all.
void VirtualChips::Chip::post_collective(InFlight& in_flight) {
  const Call& call = *in_flight.call;
  OwnGroup& own = groups_[static_cast<size_t>(call.group->id)];
  in_flight.group = &own.shared;
  in_flight.sequence = own.started++;
  collectives::Rendezvous& rendezvous = own.shared.calls.rendezvous(in_flight.sequence);
  if (const Call* other = rendezvous.posted(); other && !is_same_movement(call, *other)) {
    const int64_t chip = other->group->members[static_cast<size_t>(other->group->index)];
    fail_with(base::Code::E9001,
              collectives::not_the_same_movement(rank_, call, collectives::chip_text(chip) + ": " + to_string(*other)));
  }
  rendezvous.post(own.group.index, call);
  if (rendezvous.all_passed(1)) world_.enqueue(own.shared, in_flight.sequence);
}

// Whichever end comes last enqueues. A receive and a send that differ are the receiver's to report.
void VirtualChips::Chip::post_message(InFlight& in_flight) {
  const Call& call = *in_flight.call;
  const bool sends = call.kind == Kind::send;
  Chip& peer = world_.at(call.peer);
  InFlight* const other = peer.oldest_message(sends ? Kind::recv : Kind::send, rank_, call.tag);
  if (other == nullptr) return;
  InFlight &send = sends ? in_flight : *other, &recv = sends ? *other : in_flight;
  Chip &sender = sends ? *this : peer, &receiver = sends ? peer : *this;
  send.is_taken = recv.is_taken = true;
  if (is_same_movement(*send.call, *recv.call)) return world_.enqueue_message(send, recv);
  recv.disagreement = collectives::chip_text(sender.rank_) + ": " + to_string(*send.call);
  receiver.wake();
}

VirtualChips::InFlight& VirtualChips::Chip::in_flight(const Group& group, int64_t sequence) {
  const auto found = std::ranges::find_if(
      active_, [&](const InFlight& each) { return each.group == &group && each.sequence == sequence; });
  MEGACPP_CHECK(found != active_.end()) << collectives::chip_text(rank_) << " has not started call " << sequence;
  return *found;
}

VirtualChips::InFlight* VirtualChips::Chip::oldest_message(Kind kind, int64_t peer, int64_t tag) {
  const auto found = std::ranges::find_if(active_, [&](const InFlight& each) {
    return each.call->kind == kind && each.call->peer == peer && each.call->tag == tag && !each.is_taken;
  });
  return found == active_.end() ? nullptr : &*found;
}

void VirtualChips::Chip::finish(Ticket ticket, collectives::Stream stream) {
  enter();
  Lock lock(world_.mutex_);
  const auto finished = std::ranges::find(active_, ticket.number, &InFlight::number);
  MEGACPP_CHECK(finished != active_.end()) << "ticket " << ticket.number << " is not in flight";
  wait_until_enqueued(lock, *finished);
  if (stream.handle != nullptr) {
    world_.driver().stream_wait_event(static_cast<Stream*>(stream.handle), finished->event.get(), 0);
  } else {
    lock.unlock();
    wait_for_event(*finished);
    lock.lock();
  }
  if (finished->group != nullptr) finished->group->calls.rendezvous(finished->sequence).leave();
  idle_.splice(idle_.end(), active_, finished);
}

// On one GPU nothing waits for what is not enqueued, and a device that has failed answers.
void VirtualChips::Chip::wait(Stream* stream) {
  const Driver& driver = world_.driver();
  if (!world_.has_several_gpus()) return driver.stream_synchronize(stream);
  wait_until([&] { return driver.stream_query.attempt(stream); }, "the end of what it has enqueued");
}

void VirtualChips::Chip::wait_for_event(const InFlight& finished) {
  const Driver& driver = world_.driver();
  Event* const event = finished.event.get();
  if (!world_.has_several_gpus()) return driver.event_synchronize(event);
  wait_until([&] { return driver.event_query.attempt(event); }, finished.call->where);
}

// Without the lock. What waits for a GPU that is lost is left behind some time after the failure is known.
template <typename Query>
void VirtualChips::Chip::wait_until(const Query& query, const std::string& where) {
  const Result result = wait_for_answer(
      query, [this] { return world_.has_failed(); }, world_.options_.wait_limit, [&] { time_out_device(where); });
  if (result == kNotReady) {
    const Lock lock(world_.mutex_);
    world_.check_alive(rank_, where);
  }
  if (result != kSuccess) raise_failed_call("cuStreamQuery", result);
}

void VirtualChips::Chip::wait_until_enqueued(Lock& lock, const InFlight& in_flight) {
  const auto deadline = Clock::now() + world_.options_.wait_limit;
  while (true) {
    world_.check_alive(rank_, in_flight.call->where);
    check_agreement();
    if (in_flight.is_enqueued) return;
    if (Clock::now() >= deadline) time_out(in_flight);
    wake_.wait_until(lock, deadline);
  }
}

void VirtualChips::Chip::abort(const std::string& reason) {
  enter();
  const Lock lock(world_.mutex_);
  world_.fail({rank_, reason});
}

// Of all calls in flight: the one to be finished may wait for a chip that has stopped at another.
void VirtualChips::Chip::check_agreement() {
  for (const InFlight& each : active_)
    if (!each.disagreement.empty())
      fail_with(base::Code::E9001, collectives::not_the_same_movement(rank_, *each.call, each.disagreement));
}

void VirtualChips::Chip::fail_with(base::Code code, const base::Problem& problem) {
  world_.fail({rank_, collectives::reason_of(code, problem)});
  base::raise(code, problem);
}

void VirtualChips::Chip::time_out(const InFlight& in_flight) {
  collectives::Waited waited{.limit = world_.options_.wait_limit};
  if (in_flight.group == nullptr) {
    waited.chips.push_back(in_flight.call->peer);
  } else {
    const collectives::Rendezvous& rendezvous = in_flight.group->calls.rendezvous(in_flight.sequence);
    const std::vector<int64_t>& members = in_flight.group->calls.members();
    for (size_t index = 0; index < members.size(); ++index)
      if (rendezvous.gates_passed(static_cast<int64_t>(index)) == 0) waited.chips.push_back(members[index]);
  }
  for (const int64_t chip : waited.chips)
    waited.states += "; " + collectives::state_text(chip, world_.at(chip).oldest_call());
  fail_with(base::Code::E3102, collectives::waited_too_long(rank_, *in_flight.call, waited));
}

void VirtualChips::Chip::time_out_device(const std::string& where) {
  const Lock lock(world_.mutex_);
  collectives::Waited waited{.limit = world_.options_.wait_limit};
  for (int64_t chip = 0; chip < chips(); ++chip)
    if (world_.gpu_of(chip) != gpu_) waited.chips.push_back(chip);
  base::Problem problem = collectives::device_took_too_long(rank_, Call{.parts = {}, .where = where}, waited);
  problem.wanted = "the end of what its stream holds";
  problem.next =
      "look for a GPU that is lost (nvidia-smi, the kernel's log for Xid); a step must take less than "
      "train.wait_limit: raise it if the device is only slow";
  fail_with(base::Code::E3102, problem);
}

}  // namespace megacpp::runtime::cuda
