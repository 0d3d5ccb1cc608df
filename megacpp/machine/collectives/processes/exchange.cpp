// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::collectives {
namespace {

constexpr std::array<int64_t, 1> kOnlyMember = {0};

RemoteMessage& state_of(const InFlight& message) { return static_cast<RemoteMessage&>(*message.state); }

// A send or a receive: one end is here and has the call.
Pieces message_pieces(const InFlight& message) {
  return {.calls = std::span<const Call* const>(&message.call, 1),
          .sources = kOnlyMember,
          .targets = kOnlyMember,
          .is_sent = message.call->kind == Kind::send};
}

bool has_moved(const InFlight& message) {
  return state_of(message).cursor.piece == message_pieces(message).all_pieces();
}

}  // namespace

Exchange::Exchange(const Parts& parts)
    : engine_(parts.engine),
      map_(parts.map),
      loop_(parts.loop),
      flags_(parts.flags),
      sums_(parts.sums),
      neighbours_(static_cast<size_t>(parts.map.count)),
      read_(static_cast<size_t>(parts.map.count)) {}

void Exchange::open(GroupCalls& calls) {
  if (calls.is_local()) return by_number_.push_back(nullptr);
  ExchangeGroup& group = groups_.emplace_back(
      calls, ExchangeGroup::Processes{.owners = map_.owners, .neighbours = neighbours_, .flags = flags_}, sums_);
  by_number_.push_back(&group);
  const auto is_of_it = [&](const Frame& frame) { return frame.header.group == group.id(); };
  std::vector<Frame> early;
  std::ranges::copy_if(early_, std::back_inserter(early), is_of_it);
  std::erase_if(early_, is_of_it);
  for (const Frame& frame : early) on_arrived(frame);
}

void Exchange::begin(GroupCalls& calls, int64_t sequence) {
  ExchangeGroup* const group = group_of(calls);
  if (group == nullptr) return;
  Rendezvous& rendezvous = calls.rendezvous(sequence);
  for (const int64_t index : calls.local()) {
    const Call& call = *rendezvous.calls()[static_cast<size_t>(index)];
    MEGACPP_CHECK(call.workspace || terms_bytes(call, call.group->size()) == 0) << "no workspace: " << to_string(call);
  }
  rendezvous.is_exchanging = true;
  ExchangeCall& exchange = group->exchange(sequence);
  exchange.is_open = true;
  exchange.hash = movement_hash(*rendezvous.posted());
  active_.push_back({group, sequence});
  if (group->reads_buffers()) group->open(sequence);
  if (!group->sends_bytes()) return;
  for (size_t other = 0; other < group->others().size(); ++other) {
    if (group->others()[other].neighbour != nullptr) continue;
    const Pieces pieces = group->incoming(sequence, other);
    skip_empty(pieces, exchange.others[other].in, pieces.all_pieces());
    loop_.post(group->others()[other].process,
               {.kind = FrameKind::arrived, .hash = exchange.hash, .group = group->id(), .sequence = sequence});
  }
  loop_.flush();
}

void Exchange::forget(GroupCalls& calls, int64_t sequence) {
  if (ExchangeGroup* const group = group_of(calls); group != nullptr) group->reset(sequence);
}

void Exchange::pass(ExchangeGroup& group, int64_t sequence, int64_t gates) {
  if (group.reads_buffers()) group.pass(sequence, gates);
  if (group.sends_bytes()) loop_.wake();  // what was reduced
}

void Exchange::begin_message(InFlight& message) {
  message.call->kind == Kind::send ? offer(message) : match(message.chip, message.call->peer, message.call->tag);
}

void Exchange::offer(InFlight& send) {
  const Call& call = *send.call;
  const int64_t process = map_.owner(call.peer);
  const bool is_read = neighbours_[static_cast<size_t>(process)].has_value();
  const std::span<const Call* const> calls(&send.call, 1);
  loop_.post(process, {.kind = FrameKind::offer,
                       .hash = movement_hash(call),
                       .group = static_cast<uint64_t>(call.tag),
                       .sequence = send.number,
                       .from = send.chip,
                       .to = call.peer,
                       .addresses = is_read ? offered_.publish(calls, kOnlyMember) : AddressList{}});
  loop_.flush();
}

void Exchange::match(int64_t chip, int64_t from, int64_t tag) {
  while (InFlight* const recv = engine_.at(chip).oldest_message(Kind::recv, from, tag)) {
    const auto found = std::ranges::find_if(offers_, [&](const Frame& offer) {
      return offer.header.from == from && offer.header.to == chip && offer.header.group == static_cast<uint64_t>(tag);
    });
    if (found == offers_.end()) return;
    const Frame offer = *found;
    offers_.erase(found);
    take_up(*recv, offer);
  }
}

void Exchange::take_up(InFlight& recv, Frame offer) {
  const bool is_same = offer.header.hash == movement_hash(*recv.call);
  const std::optional<Neighbour>& neighbour = neighbours_[static_cast<size_t>(offer.process)];
  RemoteMessage& state = state_of(recv);
  recv.is_taken = true;
  if (is_same && neighbour) {
    state.peer = &neighbour->peer;
    state.addresses = offer.header.addresses;
    state.number = offer.header.sequence;
    return engine_.wake(recv.chip);
  }
  offer.header.kind = is_same ? FrameKind::accept : FrameKind::what_call;
  offer.header.number = recv.number;
  loop_.post(offer.process, offer.header);
  loop_.flush();
  if (!is_same) return;
  const Pieces pieces = message_pieces(recv);
  skip_empty(pieces, state.cursor, pieces.all_pieces());
  recv.is_moved = has_moved(recv);
  if (recv.is_moved) engine_.wake(recv.chip);
}

bool Exchange::read_message(EngineLock& lock, InFlight& recv) {
  RemoteMessage& state = state_of(recv);
  if (state.peer == nullptr || recv.is_moved) return false;
  const Peer& peer = *state.peer;
  const Remote send = {
      .peer = &peer,
      .parts = read_[static_cast<size_t>(peer.process)].look_up(peer, state.addresses, recv.call->parts.size())};
  engine_.without_lock(lock, [&] { receive(send, *recv.call); });
  recv.is_moved = true;
  loop_.post(peer.process, {.kind = FrameKind::taken, .sequence = state.number, .from = recv.call->peer});
  loop_.flush();
  return true;
}

ExchangeGroup* Exchange::group_with(uint64_t id) {
  const auto group = std::ranges::find(groups_, id, &ExchangeGroup::id);
  return group == groups_.end() ? nullptr : &*group;
}

bool Exchange::has_bytes_under_way() const {
  return !sending_.empty() ||
         std::ranges::any_of(active_, [](const Active& active) { return active.group->sends_bytes(); });
}

// Chips may begin calls while data moves: the list grows at its end, and only this thread takes from it.
bool Exchange::advance(EngineLock& lock) {
  bool is_further = false;
  for (size_t i = 0; i < active_.size();) {
    const Active active = active_[i];
    if (active.group->look(active.sequence)) {
      engine_.wake_members(active.group->calls());
      is_further = true;
    }
    for (size_t other = 0; other < active.group->others().size(); ++other)
      while (!engine_.has_failed() && send_data(lock, active, other)) is_further = true;
    if (engine_.has_failed()) return is_further;
    if (is_finished(active))
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return send_messages(lock) || is_further;
}

// One frame of a call to one process.
bool Exchange::send_data(EngineLock& lock, const Active& active, size_t other) {
  ExchangeGroup& group = *active.group;
  ExchangeCall& exchange = group.exchange(active.sequence);
  OtherProgress& progress = exchange.others[other];
  const int64_t process = group.others()[other].process;
  if (progress.gates == 0) return false;
  FrameHeader header = {.kind = FrameKind::data, .group = group.id(), .sequence = active.sequence, .from = -1};
  if (progress.hash != exchange.hash) {
    header.kind = FrameKind::what_call;
    if (!progress.was_asked) loop_.post(process, header);
    return !std::exchange(progress.was_asked, true);
  }
  if (group.others()[other].neighbour != nullptr) return false;  // its chips read
  const Pieces pieces = group.outgoing(active.sequence, other);
  const bool is_reduced = group.calls().rendezvous(active.sequence).all_passed(2);
  const int64_t limit = is_reduced ? pieces.all_pieces() : pieces.operand_pieces();
  // Empty pieces are over at once, reduced or not: a process that gets no more may go.
  skip_empty(pieces, progress.out, pieces.all_pieces());
  if (progress.out.piece >= limit) return false;
  const std::span<std::byte> room = loop_.room(process);
  if (room.empty()) return false;
  Cursor cursor = progress.out;
  engine_.without_lock(lock, [&] {
    header.bytes = static_cast<uint32_t>(pack(pieces, cursor, limit, room.subspan(sizeof(FrameHeader))));
    std::memcpy(room.data(), &header, sizeof(FrameHeader));
    loop_.send(process, sizeof(FrameHeader) + header.bytes);
  });
  progress.out = cursor;
  skip_empty(pieces, progress.out, pieces.all_pieces());
  return true;
}

bool Exchange::is_finished(const Active& active) {
  for (size_t other = 0; other < active.group->others().size(); ++other)
    if (!active.group->is_done_with(active.sequence, other)) return false;
  active.group->calls().rendezvous(active.sequence).is_exchanging = false;
  engine_.wake_members(active.group->calls());
  return true;
}

bool Exchange::send_messages(EngineLock& lock) {
  bool sent = false;
  for (size_t i = 0; i < sending_.size() && !engine_.has_failed();) {
    const Frame accepted = sending_[i];
    InFlight& send = message_of(accepted.header.from, accepted.header.sequence, "an accepted send");
    while (!engine_.has_failed() && send_message(lock, accepted, send)) sent = true;
    if (!has_moved(send)) {
      ++i;
      continue;
    }
    send.is_moved = true;
    engine_.wake(send.chip);
    sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return sent;
}

bool Exchange::send_message(EngineLock& lock, const Frame& accepted, InFlight& send) {
  const Pieces pieces = message_pieces(send);
  Cursor& cursor = state_of(send).cursor;
  skip_empty(pieces, cursor, pieces.all_pieces());
  if (has_moved(send)) return false;
  const std::span<std::byte> room = loop_.room(accepted.process);
  if (room.empty()) return false;
  FrameHeader header = accepted.header;
  header.kind = FrameKind::message;
  engine_.without_lock(lock, [&] {
    header.bytes = static_cast<uint32_t>(pack(pieces, cursor, pieces.all_pieces(), room.subspan(sizeof(FrameHeader))));
    std::memcpy(room.data(), &header, sizeof(FrameHeader));
    loop_.send(accepted.process, sizeof(FrameHeader) + header.bytes);
  });
  return true;
}

void Exchange::on_frame(EngineLock& lock, int64_t process, const FrameHeader& header,
                        std::span<const std::byte> bytes) {
  const Frame frame = {process, header};
  switch (header.kind) {
    case FrameKind::arrived:
      return on_arrived(frame);
    case FrameKind::data:
      return on_data(lock, frame, bytes);
    case FrameKind::offer:
      offers_.push_back(frame);
      return match(header.to, header.from, static_cast<int64_t>(header.group));
    case FrameKind::accept:
      return on_accept(frame);
    case FrameKind::message:
      return on_message(lock, frame, bytes);
    case FrameKind::taken:
      return on_taken(frame);
    case FrameKind::what_call:
      return tell_call(frame);
    default:
      MEGACPP_CHECK(false) << "a frame of unknown kind";
  }
}

void Exchange::on_arrived(const Frame& frame) {
  ExchangeGroup* const group = group_with(frame.header.group);
  if (group == nullptr) return early_.push_back(frame);
  OtherProgress& progress = group->exchange(frame.header.sequence).others[group->other_of(frame.process)];
  progress.gates = 1;
  progress.hash = frame.header.hash;
}

void Exchange::on_data(EngineLock& lock, const Frame& frame, std::span<const std::byte> bytes) {
  ExchangeGroup* const group = group_with(frame.header.group);
  const int64_t sequence = frame.header.sequence;
  MEGACPP_CHECK(group != nullptr && group->exchange(sequence).is_open) << "bytes of a call that is not there";
  const size_t other = group->other_of(frame.process);
  const Pieces pieces = group->incoming(sequence, other);
  OtherProgress& progress = group->exchange(sequence).others[other];
  Cursor cursor = progress.in;
  engine_.without_lock(lock, [&] { unpack(pieces, cursor, bytes); });
  progress.in = cursor;
  ++group->calls().rendezvous(sequence).arrivals;
  if (cursor.piece >= pieces.operand_pieces()) engine_.wake_members(group->calls());
}

void Exchange::on_accept(const Frame& frame) {
  message_of(frame.header.from, frame.header.sequence, "an accepted send").is_taken = true;
  sending_.push_back(frame);
}

void Exchange::on_message(EngineLock& lock, const Frame& frame, std::span<const std::byte> bytes) {
  InFlight& recv = message_of(frame.header.to, frame.header.number, "a receive");
  engine_.without_lock(lock, [&] { unpack(message_pieces(recv), state_of(recv).cursor, bytes); });
  ++recv.arrivals;
  recv.is_moved = has_moved(recv);
  if (recv.is_moved) engine_.wake(recv.chip);
}

void Exchange::on_taken(const Frame& frame) {
  InFlight& send = message_of(frame.header.from, frame.header.sequence, "a send that was read");
  send.is_taken = send.is_moved = true;
  engine_.wake(send.chip);
}

InFlight& Exchange::message_of(int64_t chip, int64_t number, const char* what) {
  InFlight* const found = engine_.at(chip).in_flight(number);
  MEGACPP_CHECK(found != nullptr) << what << " of " << chip_text(chip) << " is not there";
  return *found;
}

// To a process that has another movement there.
void Exchange::tell_call(const Frame& frame) {
  FrameHeader answer = frame.header;
  answer.kind = FrameKind::other_call;
  int64_t chip = frame.header.from;
  const Call* call = nullptr;
  if (chip >= 0) {
    call = message_of(chip, frame.header.sequence, "a send that is asked for").call;
  } else if (ExchangeGroup* const group = group_with(frame.header.group)) {
    chip = group->calls().members()[static_cast<size_t>(group->calls().local().front())];
    call = group->calls().rendezvous(frame.header.sequence).posted();
  }
  MEGACPP_CHECK(call != nullptr) << "asked for a call that is not there";
  loop_.post(frame.process, answer, chip_text(chip) + ": " + to_string(*call));
}

void Exchange::on_other_call(const FrameHeader& header, const std::string& text) {
  if (header.from >= 0) {
    InFlight* const recv = engine_.at(header.to).in_flight(header.number);
    if (recv == nullptr) return;
    recv->other_call = text;
    return engine_.wake(header.to);
  }
  ExchangeGroup* const group = group_with(header.group);
  MEGACPP_CHECK(group != nullptr) << "told of a group that is not there";
  group->calls().rendezvous(header.sequence).other_call = text;
  engine_.wake_members(group->calls());
}

std::string Exchange::wanted_of(int64_t process) {
  for (const Active& active : active_) {
    const auto& others = active.group->others();
    const auto other = std::ranges::find(others, process, &ExchangeGroup::Other::process);
    if (other == others.end()) continue;
    if (active.group->is_done_with(active.sequence, static_cast<size_t>(other - others.begin()))) continue;
    return to_string(*active.group->calls().rendezvous(active.sequence).posted());
  }
  const InFlight* const message = engine_.oldest_message_with(map_.chips_of(process));
  return message == nullptr ? "" : to_string(*message->call);
}

}  // namespace megacpp::collectives
