// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/nccl_chips.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/base/thread.h"
#include "megacpp/collectives/failure.h"
#include "megacpp/runtime/cuda/device_communicator.h"
#include "megacpp/runtime/cuda/exchange_steps.h"
#include "megacpp/runtime/cuda/handles.h"
#include "megacpp/runtime/cuda/kernels/collective.h"
#include "megacpp/runtime/cuda/nccl.h"
#include "megacpp/runtime/cuda/nccl_channels.h"

namespace megacpp::runtime::cuda {
namespace {

using collectives::Call;
using collectives::Kind;
using collectives::Ticket;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kListenEvery(20);

// On the stream of a channel.
class ChannelSteps final : public ExchangeSteps {
 public:
  struct Options {
    const Nccl& nccl;
    const CollectiveKernel& kernel;
    NcclChannels& channels;
    const NcclChannels::Channel& channel;
    const std::string& where;  // of the call
  };
  /// `lock` is of the channels' mutex.
  ChannelSteps(const Options& options, NcclChannels::Lock& lock) : options_(options), lock_(lock) {}

  void move(const CollectiveParams& table) override { options_.kernel.run(table, options_.channel.stream.get()); }
  void begin_messages() override { options_.nccl.begin(); }
  void send(const Message& message) override { options_.nccl.send(as_nccl(message)); }
  void receive(const Message& message) override { options_.nccl.receive(as_nccl(message)); }
  void end_messages() override { options_.channels.end_messages(lock_, options_.channel, options_.where); }

 private:
  Nccl::Message as_nccl(const Message& message) const {
    return {.comm = options_.channel.comm,
            .peer = static_cast<int>(message.member),
            .address = message.address,
            .bytes = static_cast<size_t>(message.bytes),
            .stream = options_.channel.stream.get()};
  }

  const Options options_;
  NcclChannels::Lock& lock_;
};

// A message that every other chip sends when its run ends. It is awaited from the start: so the control world notices
// any process that goes without one, as it does for everything that is wanted of a process.
class EndBarrier {
 public:
  explicit EndBarrier(collectives::Communicator& control) : control_(control) {
    control_.reserve_messages(2 * control.chips());
    for (int64_t chip = 0; chip < control.chips(); ++chip)
      if (chip != control.rank()) received_.push_back(begin(Kind::recv, chip));
  }
  /// Waits for those of all others.
  void wait() {
    for (int64_t chip = 0; chip < control_.chips(); ++chip)
      if (chip != control_.rank()) sent_.push_back(begin(Kind::send, chip));
    for (const Ticket ticket : sent_) control_.finish(ticket, collectives::kHostThread);
    for (const Ticket ticket : received_) control_.finish(ticket, collectives::kHostThread);
  }

 private:
  static constexpr int64_t kTag = -1;  // no node has it

  Ticket begin(Kind kind, int64_t peer) {
    Call& call = calls_.emplace_back();
    call.kind = kind;
    call.dtype = ir::DType::pred;
    call.peer = peer;
    call.tag = kTag;
    call.parts = {{.in = &sent_byte_, .out = &received_byte_, .shape = {1}}};
    call.where = "the end of its run";
    return control_.start(call, collectives::kHostThread);
  }

  collectives::Communicator& control_;
  std::byte sent_byte_ = {}, received_byte_ = {};  // of no meaning
  std::deque<Call> calls_;
  std::vector<Ticket> sent_, received_;
};

// A call whose end has not been waited for: the event marks first that the chip is ready, then that all has moved.
struct StartedCall {
  explicit StartedCall(const Driver& driver) : event(driver) {}

  OwnedEvent event;
  int64_t number = 0;
  const Call* call = nullptr;
};

ChannelKey key_of_message(const Call& call, int64_t rank) {
  const bool sends = call.kind == Kind::send;
  return {.is_message = true, .members = {sends ? rank : call.peer, sends ? call.peer : rank}, .tag = call.tag};
}

}  // namespace

class NcclChips::Chip final : public DeviceCommunicator {
 public:
  explicit Chip(const NcclChipsOptions& options);
  ~Chip() override;

  int64_t rank() const override { return rank_; }
  int64_t chips() const override { return options_.control->chips(); }
  const collectives::Group& create_group(const std::vector<int64_t>& members) override;
  void announce(const Call& call) override;
  void reserve_messages(int64_t count) override;
  Ticket start(const Call& call, collectives::Stream stream) override;
  void finish(Ticket ticket, collectives::Stream stream) override;
  void abort(const std::string& reason) override;
  void connect() override;
  void wait(Stream* stream) override;
  int64_t workspace_bytes(const Call& call, int64_t members) const override {
    return exchange_workspace(call, members);
  }

  /// E3101 once another chip has failed.
  void check_alive(const std::string& where);

 private:
  struct OwnGroup {
    collectives::Group group;
    NcclChannels::Channel& channel;
    int64_t in_flight = 0;
  };

  NcclChannels::Options channel_options();
  void enter() const { options_.driver.ctx_set_current(options_.context); }
  void add_idle(int64_t count);
  NcclChannels::Channel& channel_of(const Call& call);
  int64_t& in_flight_of(const Call& call);
  void check_limit(const Call& call);
  void enqueue(const Call& call, const NcclChannels::Channel& channel);
  template <typename Query>
  void wait_until(const Query& query, const std::string& where);
  std::vector<int64_t> all_members() const;
  /// Of chips that do not connect.
  [[noreturn]] void time_out(const std::string& where, std::vector<int64_t> members);
  /// Of the own device.
  [[noreturn]] void time_out_device(const std::string& where);
  [[noreturn]] void end_by(const base::Problem& problem);
  collectives::Waited waited_for(std::vector<int64_t> members) const;
  void listen();
  void end_with(const base::Problem& problem);
  void part_from_others();

  const NcclChipsOptions options_;
  const int64_t rank_;
  collectives::Communicator& control_;
  std::timed_mutex control_mutex_;  // of control_: the listener uses it too
  const Nccl nccl_;
  const CollectiveKernel kernel_;
  NcclChannels channels_;
  std::deque<OwnGroup> groups_;  // by Group::id
  std::list<StartedCall> active_;
  std::list<StartedCall> idle_;  // they change lists, so that starting a call allocates nothing
  std::vector<Address> scratch_;
  int64_t messages_in_flight_ = 0;
  int64_t message_limit_ = collectives::kMaxInFlight;
  int64_t next_number_ = 0;

  EndBarrier end_barrier_;
  Call pulse_;                // of the listener, once a chip has failed
  std::mutex failure_mutex_;  // of the two below it
  bool is_stopping_ = false;
  std::optional<base::Problem> failure_;  // the first that this chip has heard of
  std::condition_variable stop_;
  std::thread listener_;
};

NcclChips::Chip::Chip(const NcclChipsOptions& options)
    : options_(options),
      rank_(options.control->local_chips().front()),
      control_(options.control->communicator(rank_)),
      nccl_(options.toolbox.library(LibraryKind::nccl)),
      kernel_(options.toolbox),
      channels_(channel_options()),
      end_barrier_(control_) {
  enter();
  scratch_.resize(static_cast<size_t>(chips()));
  add_idle(collectives::kMaxInFlight);
  const std::vector<int64_t> alone = {rank_};
  pulse_.kind = Kind::all_gather;
  pulse_.group = &control_.create_group(alone);
  pulse_.where = "the end of the run";
  listener_ = base::start_thread("failures of other processes", [this] { listen(); });
}

NcclChannels::Options NcclChips::Chip::channel_options() {
  NcclChannels::Options options{.driver = options_.driver,
                                .nccl = nccl_,
                                .control = control_,
                                .control_mutex = control_mutex_,
                                .wait_limit = options_.wait_limit,
                                .check_alive = {},
                                .time_out = {}};
  options.check_alive = [this](const std::string& where) { check_alive(where); };
  options.time_out = [this](const std::string& where, const std::vector<int64_t>& members) {
    time_out(where, members);
  };
  return options;
}

NcclChips::Chip::~Chip() {
  {
    const std::lock_guard guard(failure_mutex_);
    is_stopping_ = true;
  }
  stop_.notify_all();
  listener_.join();
  part_from_others();
  options_.driver.ctx_set_current.attempt(options_.context);
}

// Of a run that has failed nobody waits for anybody; one that fails only now has ended before. Ids that nobody has
// asked for still move until then.
void NcclChips::Chip::part_from_others() {
  if (failure_) return;
  try {
    channels_.finish_offers();
    end_barrier_.wait();
  } catch (const base::Error&) {
    channels_.abort();
  }
}

void NcclChips::Chip::add_idle(int64_t count) {
  for (int64_t i = 0; i < count; ++i) idle_.emplace_back(options_.driver);
}

const collectives::Group& NcclChips::Chip::create_group(const std::vector<int64_t>& members) {
  for (const OwnGroup& own : groups_)
    if (own.group.members == members) return own.group;
  collectives::check_group(members, rank_, chips());
  enter();
  add_idle(collectives::kMaxInFlight);
  NcclChannels::Channel& channel = channels_.open({.members = members});
  collectives::Group group = {.members = members,
                              .index = std::ranges::find(members, rank_) - members.begin(),
                              .id = static_cast<int64_t>(groups_.size())};
  return groups_.emplace_back(OwnGroup{std::move(group), channel}).group;
}

void NcclChips::Chip::announce(const Call& call) {
  if (!collectives::is_point_to_point(call.kind)) return;
  collectives::check_call(call, chips());
  MEGACPP_CHECK(call.peer != rank_) << "a message of a chip to itself: " << to_string(call);
  enter();
  channels_.open(key_of_message(call, rank_));
}

void NcclChips::Chip::reserve_messages(int64_t count) {
  enter();
  add_idle(count);
  message_limit_ += count;
}

void NcclChips::Chip::connect() {
  enter();
  check_alive("connecting");
  channels_.connect();
}

// Of a message that was not announced it is opened now, and its first call waits for the other end.
NcclChannels::Channel& NcclChips::Chip::channel_of(const Call& call) {
  if (!collectives::is_point_to_point(call.kind)) return groups_[static_cast<size_t>(call.group->id)].channel;
  announce(call);
  return channels_.open(key_of_message(call, rank_));
}

int64_t& NcclChips::Chip::in_flight_of(const Call& call) {
  if (collectives::is_point_to_point(call.kind)) return messages_in_flight_;
  return groups_[static_cast<size_t>(call.group->id)].in_flight;
}

void NcclChips::Chip::check_limit(const Call& call) {
  const bool is_message = collectives::is_point_to_point(call.kind);
  MEGACPP_CHECK(is_message || &groups_.at(static_cast<size_t>(call.group->id)).group == call.group)
      << "a group of another chip: " << to_string(call);
  const int64_t limit = is_message ? message_limit_ : collectives::kMaxInFlight, count = in_flight_of(call);
  MEGACPP_CHECK(count < limit) << count << " calls are in flight before " << to_string(call);
}

Ticket NcclChips::Chip::start(const Call& call, collectives::Stream stream) {
  collectives::check_call(call, chips());
  enter();
  check_alive(call.where);
  check_limit(call);
  const NcclChannels::Channel& channel = channel_of(call);
  channels_.connect();
  const Driver& driver = options_.driver;
  StartedCall& started = idle_.front();
  started.call = &call;
  started.number = next_number_++;
  if (stream.handle != nullptr) {
    driver.event_record(started.event.get(), static_cast<Stream*>(stream.handle));
    driver.stream_wait_event(channel.stream.get(), started.event.get(), 0);
  }
  enqueue(call, channel);
  driver.event_record(started.event.get(), channel.stream.get());
  ++in_flight_of(call);
  active_.splice(active_.end(), idle_, idle_.begin());
  return {started.number};
}

void NcclChips::Chip::enqueue(const Call& call, const NcclChannels::Channel& channel) {
  NcclChannels::Lock lock(channels_.mutex());
  check_alive(call.where);
  ChannelSteps steps({.nccl = nccl_, .kernel = kernel_, .channels = channels_, .channel = channel, .where = call.where},
                     lock);
  run_exchange(call, scratch_, steps);
}

void NcclChips::Chip::finish(Ticket ticket, collectives::Stream stream) {
  enter();
  const auto finished = std::ranges::find(active_, ticket.number, &StartedCall::number);
  MEGACPP_CHECK(finished != active_.end()) << "ticket " << ticket.number << " is not in flight";
  check_alive(finished->call->where);
  Event* const event = finished->event.get();
  if (stream.handle != nullptr)
    options_.driver.stream_wait_event(static_cast<Stream*>(stream.handle), event, 0);
  else
    wait_until([&] { return options_.driver.event_query.attempt(event); }, finished->call->where);
  --in_flight_of(*finished->call);
  idle_.splice(idle_.end(), active_, finished);
}

void NcclChips::Chip::wait(Stream* stream) {
  enter();
  wait_until([&] { return options_.driver.stream_query.attempt(stream); }, "the end of what it has enqueued");
}

// Of a failure elsewhere the channels were ended, and with them what waits for them: buffers may go after that.
template <typename Query>
void NcclChips::Chip::wait_until(const Query& query, const std::string& where) {
  const Result result = wait_for_answer(
      query, [this] { return channels_.is_aborted(); }, options_.wait_limit, [&] { time_out_device(where); });
  check_alive(where);
  if (result != kSuccess) raise_failed_call("cuStreamQuery", result);
}

std::vector<int64_t> NcclChips::Chip::all_members() const {
  std::vector<int64_t> members;
  for (const OwnGroup& own : groups_) members.insert(members.end(), own.group.members.begin(), own.group.members.end());
  return members;
}

collectives::Waited NcclChips::Chip::waited_for(std::vector<int64_t> members) const {
  std::ranges::sort(members);
  const auto repeated = std::ranges::unique(members);
  members.erase(repeated.begin(), repeated.end());
  std::erase(members, rank_);
  return {.limit = options_.wait_limit, .chips = std::move(members)};
}

void NcclChips::Chip::time_out(const std::string& where, std::vector<int64_t> members) {
  const Call connecting = {.parts = {}, .where = where};
  base::Problem problem = collectives::waited_too_long(rank_, connecting, waited_for(std::move(members)));
  problem.wanted = "an answer of its other members";
  problem.next =
      "look at the processes of these chips; NCCL_DEBUG=INFO says where they wait; raise train.wait_limit if they are "
      "only slow";
  end_by(problem);
}

void NcclChips::Chip::time_out_device(const std::string& where) {
  Call waiting = {.parts = {}, .where = where};
  if (!active_.empty()) waiting = *active_.front().call;
  base::Problem problem = collectives::device_took_too_long(rank_, waiting, waited_for(all_members()));
  if (active_.empty()) problem.wanted = "the end of a step";
  end_by(problem);
}

void NcclChips::Chip::end_by(const base::Problem& problem) {
  abort(collectives::reason_of(base::Code::E3102, problem));
  base::raise(base::Code::E3102, problem);
}

void NcclChips::Chip::abort(const std::string& reason) {
  options_.driver.ctx_set_current.attempt(options_.context);
  options_.control->abort(rank_, reason);
  end_with(collectives::other_chip_failed(rank_, "", {rank_, reason}, ""));
  channels_.wait_for_streams(kEndLimit);  // nobody reads our buffers after that
}

void NcclChips::Chip::check_alive(const std::string& where) {
  const std::lock_guard guard(failure_mutex_);
  if (!failure_) return;
  base::Problem problem = *failure_;
  problem.where = collectives::chip_text(rank_) + ", " + where;
  base::raise(base::Code::E3101, problem);
}

// The control world ends every call once a chip has failed: one among this chip alone says how. What NCCL notices is
// this chip's own failure only where that world knows of none.
void NcclChips::Chip::listen() {
  options_.driver.ctx_set_current.attempt(options_.context);
  std::optional<Clock::time_point> noticed;
  std::unique_lock lock(failure_mutex_);
  while (!stop_.wait_for(lock, kListenEvery, [this] { return is_stopping_; })) {
    lock.unlock();
    try {
      const std::string failed = channels_.failure();
      if (!failed.empty() && !noticed) noticed = Clock::now();
      if (!failed.empty() && Clock::now() - *noticed >= kToldLimit) options_.control->abort(rank_, failed);
      if (options_.control->has_failed()) {
        const std::lock_guard guard(control_mutex_);
        control_.run(pulse_, collectives::kHostThread);
      }
    } catch (const base::Error& error) {
      return end_with(error.problem());
    }
    lock.lock();
  }
}

void NcclChips::Chip::end_with(const base::Problem& problem) {
  {
    const std::lock_guard guard(failure_mutex_);
    if (!failure_) failure_ = problem;
  }
  channels_.abort();
}

NcclChips::NcclChips(const NcclChipsOptions& options) : control_(options.control) {
  MEGACPP_CHECK(local_chips().size() == 1) << local_chips().size() << " chips of NCCL in one process";
  chip_ = std::make_unique<Chip>(options);
}

NcclChips::~NcclChips() = default;

collectives::Properties nccl_chips_properties() {
  return {.name = "nccl", .has_fixed_order_sums = true, .ordering = collectives::Ordering::stream};
}

const collectives::Properties& NcclChips::properties() const {
  static const collectives::Properties properties = nccl_chips_properties();
  return properties;
}

collectives::Communicator& NcclChips::communicator(int64_t chip) {
  MEGACPP_CHECK(chip == local_chips().front()) << collectives::chip_text(chip) << " is not local";
  return *chip_;
}

std::vector<std::string> NcclChips::gather(const std::string& own) { return control_->share("chips of NCCL", own); }

}  // namespace megacpp::runtime::cuda
