// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/nccl_chips.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread.h"
#include "megacpp/machine/collectives/failure.h"
#include "megacpp/machine/cuda/call_event.h"
#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/exchange_steps.h"
#include "megacpp/machine/cuda/handles.h"
#include "megacpp/machine/cuda/kernels/collective.h"
#include "megacpp/machine/cuda/nccl.h"
#include "megacpp/machine/cuda/nccl_channels.h"

namespace megacpp::runtime::cuda {
namespace {

using collectives::Call;
using collectives::EngineLock;
using collectives::InFlight;
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

ChannelKey key_of_message(const Call& call, int64_t rank) {
  const bool sends = call.kind == Kind::send;
  return {.is_message = true, .members = {sends ? rank : call.peer, sends ? call.peer : rank}, .tag = call.tag};
}

}  // namespace

// Its calls are one engine's, which knows of no other chip in this process: what has posted a call has posted all of
// it.
class NcclChips::Chip final : public EngineCommunicator,
                              private collectives::Mover,
                              private collectives::OtherProcesses {
 public:
  Chip(const NcclChipsOptions& options, collectives::CallEngine& engine);
  ~Chip() override;

  void announce(const Call& call) override;
  void connect() override;
  void wait(Stream* stream) override;
  int64_t workspace_bytes(const Call& call, int64_t members) const override {
    return exchange_workspace(call, members);
  }

 private:
  // Mover:
  void enter(int64_t) override { options_.driver.ctx_set_current(options_.context); }
  void open(collectives::GroupCalls& group, int64_t chip) override;
  std::unique_ptr<collectives::CallState> make_state(int64_t chip) override;
  void mark(InFlight& call, collectives::Stream stream) override;
  void begin(EngineLock& lock, InFlight& last) override;
  void begin_message(InFlight& send, InFlight& recv, int64_t chip) override;
  void begin_remote(EngineLock& lock, InFlight& message) override;
  void join(EngineLock& lock, InFlight& call, collectives::Stream stream) override;
  void settle(int64_t chip) override;
  // OtherProcesses:
  void propose(const collectives::Failure& failure) override;

  NcclChannels::Options channel_options();
  void check_alive(const std::string& where) { engine_.require_alive(rank_, where); }
  void enqueue(EngineLock& lock, InFlight& call, const NcclChannels::Channel& channel);
  template <typename Query>
  void wait_until(const Query& query, const std::string& where);
  /// Of chips that do not connect.
  [[noreturn]] void time_out(const std::string& where, std::vector<int64_t> members);
  /// Of the own device.
  [[noreturn]] void time_out_device(const std::string& where);
  collectives::Waited waited_for(std::vector<int64_t> members) const;
  void listen();
  void look_for_failures(std::optional<Clock::time_point>& noticed);
  void part_from_others();

  const NcclChipsOptions options_;
  collectives::CallEngine& engine_;
  const int64_t rank_;
  collectives::Communicator& control_;
  std::timed_mutex control_mutex_;  // of control_: the listener uses it too
  const Nccl nccl_;
  const CollectiveKernel kernel_;
  NcclChannels channels_;
  std::vector<NcclChannels::Channel*> groups_;  // by GroupCalls::number
  std::vector<Address> scratch_;

  EndBarrier end_barrier_;
  Call pulse_;  // of the listener, once a chip has failed
  std::mutex stop_mutex_;
  bool is_stopping_ = false;
  std::condition_variable stop_;
  std::thread listener_;
};

NcclChips::Chip::Chip(const NcclChipsOptions& options, collectives::CallEngine& engine)
    : EngineCommunicator(engine.at(options.control->local_chips().front())),
      options_(options),
      engine_(engine),
      rank_(options.control->local_chips().front()),
      control_(options.control->communicator(rank_)),
      nccl_(options.toolbox.library(LibraryKind::nccl)),
      kernel_(options.toolbox),
      channels_(channel_options()),
      scratch_(static_cast<size_t>(options.control->chips())),
      end_barrier_(control_) {
  engine_.attach(*this, this);
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
    const std::lock_guard guard(stop_mutex_);
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
  if (engine_.has_failed()) return;
  try {
    channels_.finish_offers();
    end_barrier_.wait();
  } catch (const base::Error&) {
    channels_.abort();
  }
}

void NcclChips::Chip::open(collectives::GroupCalls& group, int64_t /*chip*/) {
  enter(rank_);
  groups_.push_back(&channels_.open({.members = group.members()}));
}

std::unique_ptr<collectives::CallState> NcclChips::Chip::make_state(int64_t chip) {
  enter(chip);
  return std::make_unique<CallEvent>(options_.driver);
}

void NcclChips::Chip::announce(const Call& call) {
  if (!collectives::is_point_to_point(call.kind)) return;
  collectives::check_call(call, chips());
  MEGACPP_CHECK(call.peer != rank_) << "a message of a chip to itself: " << to_string(call);
  enter(rank_);
  channels_.open(key_of_message(call, rank_));
}

void NcclChips::Chip::connect() {
  enter(rank_);
  check_alive("connecting");
  channels_.connect();
}

void NcclChips::Chip::mark(InFlight& call, collectives::Stream stream) {
  CallEvent& state = call_event(call);
  state.is_marked = stream.handle != nullptr;
  if (state.is_marked) options_.driver.event_record(state.event.get(), static_cast<Stream*>(stream.handle));
}

void NcclChips::Chip::begin(EngineLock& lock, InFlight& last) {
  enqueue(lock, last, *groups_[static_cast<size_t>(last.group->number())]);
}

void NcclChips::Chip::begin_message(InFlight& send, InFlight&, int64_t) {
  MEGACPP_CHECK(false) << "a message of a chip to itself: " << to_string(*send.call);
}

// A message that was not announced opens its channel now, and its first call waits for the other end.
void NcclChips::Chip::begin_remote(EngineLock& lock, InFlight& message) {
  enqueue(lock, message, channels_.open(key_of_message(*message.call, rank_)));
}

// Without the engine's lock, which is for who tells of a failure meanwhile: nothing else looks at the call.
void NcclChips::Chip::enqueue(EngineLock& lock, InFlight& call, const NcclChannels::Channel& channel) {
  lock.unlock();
  channels_.connect();
  const CallEvent& state = call_event(call);
  if (state.is_marked) options_.driver.stream_wait_event(channel.stream.get(), state.event.get(), 0);
  {
    NcclChannels::Lock enqueuing(channels_.mutex());
    if (channels_.is_aborted()) {
      enqueuing.unlock();
      check_alive(call.call->where);
    }
    ChannelSteps steps(
        {.nccl = nccl_, .kernel = kernel_, .channels = channels_, .channel = channel, .where = call.call->where},
        enqueuing);
    run_exchange(*call.call, scratch_, steps);
  }
  options_.driver.event_record(state.event.get(), channel.stream.get());
  lock.lock();
  call.is_moved = true;
}

void NcclChips::Chip::join(EngineLock& lock, InFlight& call, collectives::Stream stream) {
  Event* const event = call_event(call).event.get();
  if (stream.handle != nullptr) return options_.driver.stream_wait_event(static_cast<Stream*>(stream.handle), event, 0);
  lock.unlock();
  wait_until([&] { return options_.driver.event_query.attempt(event); }, call.call->where);
  lock.lock();
}

void NcclChips::Chip::wait(Stream* stream) {
  enter(rank_);
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
  EngineLock lock(engine_.mutex);
  engine_.fail_with(lock, rank_, base::Code::E3102, problem);
}

void NcclChips::Chip::time_out_device(const std::string& where) {
  EngineLock lock(engine_.mutex);
  const Call* const oldest = engine_.at(rank_).oldest_call();
  const Call waiting = oldest != nullptr ? *oldest : Call{.parts = {}, .where = where};
  std::vector<int64_t> members;
  for (const NcclChannels::Channel* const group : groups_)
    members.insert(members.end(), group->key.members.begin(), group->key.members.end());
  base::Problem problem = collectives::device_took_too_long(rank_, waiting, waited_for(std::move(members)));
  if (oldest == nullptr) problem.wanted = "the end of a step";
  engine_.fail_with(lock, rank_, base::Code::E3102, problem);
}

void NcclChips::Chip::propose(const collectives::Failure& failure) {
  options_.driver.ctx_set_current.attempt(options_.context);
  options_.control->abort(rank_, failure.reason);
  engine_.decide(failure);
}

void NcclChips::Chip::settle(int64_t) {
  options_.driver.ctx_set_current.attempt(options_.context);
  channels_.abort();
  channels_.wait_for_streams(kEndLimit);  // nobody reads our buffers after that
}

void NcclChips::Chip::listen() {
  options_.driver.ctx_set_current.attempt(options_.context);
  std::optional<Clock::time_point> noticed;
  std::unique_lock lock(stop_mutex_);
  while (!stop_.wait_for(lock, kListenEvery, [this] { return is_stopping_; })) {
    lock.unlock();
    try {
      look_for_failures(noticed);
    } catch (const base::Error& error) {
      {
        const EngineLock engine(engine_.mutex);
        engine_.decide(error.problem());
      }
      return channels_.abort();
    }
    lock.lock();
  }
}

// The control world ends every call once a chip has failed: one among this chip alone says how. What NCCL notices is
// this chip's own failure only where that world knows of none.
void NcclChips::Chip::look_for_failures(std::optional<Clock::time_point>& noticed) {
  const std::string failed = channels_.failure();
  if (!failed.empty() && !noticed) noticed = Clock::now();
  if (!failed.empty() && Clock::now() - *noticed >= kToldLimit) options_.control->abort(rank_, failed);
  if (!options_.control->has_failed()) return;
  const std::lock_guard guard(control_mutex_);
  control_.run(pulse_, collectives::kHostThread);
}

NcclChips::NcclChips(const NcclChipsOptions& options)
    : control_(options.control),
      engine_({.chips = control_->chips(), .local = control_->local_chips(), .wait_limit = options.wait_limit}) {
  MEGACPP_CHECK(local_chips().size() == 1) << local_chips().size() << " chips of NCCL in one process";
  chip_ = std::make_unique<Chip>(options, engine_);
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
