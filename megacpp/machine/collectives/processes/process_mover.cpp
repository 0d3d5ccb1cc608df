// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/process_mover.h"

#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

// For another process to say which of several failures came first: it hears of them at once, or is gone itself.
constexpr std::chrono::seconds kDecisionLimit(5);

bool is_text(FrameKind kind) {
  return kind == FrameKind::other_call || kind == FrameKind::waits || kind == FrameKind::gather ||
         kind == FrameKind::failed || kind == FrameKind::is_over;
}

}  // namespace

ProcessMover::ProcessMover(CallEngine& engine, std::unique_ptr<Endpoint> endpoint, std::vector<int64_t> owners,
                           Sums sums)
    : ThreadMover(engine),
      map_({.own = endpoint->process(), .count = endpoint->processes(), .owners = std::move(owners)}),
      flags_(map_.count > 1 ? make_own_flags() : nullptr),
      remotes_(static_cast<size_t>(engine.chips())),
      exchange_({.engine = engine, .map = map_, .loop = loop_, .flags = flags_.get(), .sums = sums}),
      liveness_({.engine = engine, .map = map_, .loop = loop_}),
      agreement_({.engine = engine, .map = map_, .loop = loop_}, liveness_),
      inquiry_(
          {.common = {.engine = engine, .map = map_, .loop = loop_}, .exchange = exchange_, .liveness = liveness_}),
      loop_(engine, std::move(endpoint), *this) {
  for (const int64_t chip : engine.local())
    remotes_[static_cast<size_t>(chip)].resize(static_cast<size_t>(engine.chips()));
  engine.attach(*this, this);
  loop_.begin();
}

void ProcessMover::set_hosts(std::vector<std::string> hosts) {
  const EngineLock lock(engine().mutex);
  map_.hosts = std::move(hosts);
}

void ProcessMover::set_neighbours(std::vector<std::optional<Neighbour>> neighbours) {
  const EngineLock lock(engine().mutex);
  exchange_.set_neighbours(std::move(neighbours));
}

std::unique_ptr<CallState> ProcessMover::make_state(int64_t) { return std::make_unique<RemoteMessage>(); }

void ProcessMover::mark(InFlight& call, Stream stream) {
  ThreadMover::mark(call, stream);
  static_cast<RemoteMessage&>(*call.state) = {};
}

void ProcessMover::begin(EngineLock&, InFlight& last) { exchange_.begin(*last.group, last.sequence); }

void ProcessMover::begin_remote(EngineLock&, InFlight& message) { exchange_.begin_message(message); }

bool ProcessMover::advance(EngineLock& lock, InFlight& call) {
  try {
    if (call.call->kind == Kind::recv && exchange_.read_message(lock, call)) return true;
    return ThreadMover::advance(lock, call);
  } catch (const PeerGone& gone) {
    static_cast<RemoteMessage&>(*call.state).peer = nullptr;
    if (call.rendezvous) exchange_.group_of(*call.group)->exchange(call.sequence).is_broken = true;
    liveness_.on_unreadable(gone, *call.call);
    return false;
  }
}

bool ProcessMover::prepare(InFlight& call, int64_t step, Member& member) {
  ExchangeGroup* const group = exchange_.group_of(*call.group);
  if (group == nullptr) return true;
  if (!group->may_step(call.sequence, step)) return false;
  member.terms = group->terms();
  if (!group->reads_buffers()) return true;
  const std::span<Remote> remotes = remotes_[static_cast<size_t>(call.chip)];
  member.remotes = remotes.first(group->calls().members().size());
  group->find_remotes(call.sequence, remotes.first(group->calls().members().size()));
  return true;
}

void ProcessMover::on_passed(InFlight& call, int64_t gates) {
  if (ExchangeGroup* const group = exchange_.group_of(*call.group)) exchange_.pass(*group, call.sequence, gates);
}

// One that did not answer when it was asked will not decide.
std::chrono::milliseconds ProcessMover::decision_limit() const {
  return liveness_.is_arbiter_silent() ? std::chrono::milliseconds(0) : kDecisionLimit;
}

void ProcessMover::on_frame(EngineLock& lock, int64_t process, const FrameHeader& header,
                            std::span<const std::byte> bytes) {
  liveness_.on_heard(process);
  if (is_text(header.kind)) {
    if (const std::optional<std::string> text = loop_.text_of(process, header, bytes))
      on_text(lock, process, header, *text);
  } else if (header.kind == FrameKind::who_waits) {
    inquiry_.on_question(process, header);
  } else if (!engine().has_failed()) {  // else buffers may be gone
    exchange_.on_frame(lock, process, header, bytes);
  }
}

void ProcessMover::on_text(EngineLock& lock, int64_t process, const FrameHeader& header, const std::string& text) {
  switch (header.kind) {
    case FrameKind::gather:
      return agreement_.on_gathered(header, text);
    case FrameKind::waits:
      return inquiry_.on_answer(process, header, text);
    case FrameKind::failed:
      return engine().fail(lock, {header.from, text});
    case FrameKind::is_over:
      return engine().decide(Failure{header.from, text});
    case FrameKind::other_call:
      return exchange_.on_other_call(header, text);
    default:
      MEGACPP_CHECK(false) << "a text of unknown kind";
  }
}

void ProcessMover::on_polled(EngineLock& lock) {
  liveness_.look_for_losses(lock, [this](int64_t process) { return exchange_.wanted_of(process); });
}

}  // namespace megacpp::collectives
