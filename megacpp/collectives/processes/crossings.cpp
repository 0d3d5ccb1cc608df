// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/crossings.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

#include "megacpp/base/error.h"
#include "megacpp/base/thread.h"

namespace megacpp::collectives {
namespace {

using std::chrono::microseconds;

constexpr microseconds kIdleWait = std::chrono::milliseconds(50);    // for something to do
constexpr microseconds kDrivenWait = std::chrono::milliseconds(5);   // for the chip that takes turns to end
constexpr microseconds kClosingWait = std::chrono::milliseconds(1);  // for frames to leave
constexpr std::chrono::seconds kClosingLimit(2);                     // for all of them
// From the failure on, when all of them are words of it: those that live have read them by then, and the worlds of a
// process that ends one after the other wait for one that does not read at the same time.
constexpr std::chrono::milliseconds kFailedClosingLimit(500);

// While a chip waits: without sleep at first, which takes longer than a message does; then so that a sleep lasts a
// small part of the wait.
constexpr microseconds kAwake(1000);
constexpr int64_t kPartOfQuiet = 8;
// To ask MPI takes as long as all else of a turn: while they do not sleep, chips that wait for processes of their host
// alone ask less often.
constexpr int64_t kTurnsOfAPoll = 8;
constexpr microseconds kLongestPause(1000);

constexpr std::array<int64_t, 1> kOnlyMember = {0};

// Of a send, or of a receive: one end is here and has the call.
Pieces message_pieces(const InFlight& message) {
  return {.calls = std::span<const Call* const>(&message.call, 1),
          .sources = kOnlyMember,
          .targets = kOnlyMember,
          .is_sent = message.call->kind == Kind::send};
}

bool is_moved(const InFlight& message) { return message.cursor.piece == message_pieces(message).all_pieces(); }

bool is_text(FrameKind kind) {
  return kind == FrameKind::other_call || kind == FrameKind::waits || kind == FrameKind::gather ||
         kind == FrameKind::failed || kind == FrameKind::is_over;
}

}  // namespace

Crossings::Crossings(LocalChips& chips, std::unique_ptr<Endpoint> endpoint, std::vector<int64_t> owners, Sums sums)
    : chips_(chips),
      endpoint_(std::move(endpoint)),
      owners_(std::move(owners)),
      sums_(sums),
      board_(endpoint_->processes() > 1 ? make_own_board() : nullptr),
      neighbours_(static_cast<size_t>(endpoint_->processes())),
      read_(static_cast<size_t>(endpoint_->processes())),
      mail_(endpoint_->processes()),
      lost_(static_cast<size_t>(endpoint_->processes())),
      is_silent_(static_cast<size_t>(endpoint_->processes())),
      heard_(static_cast<size_t>(endpoint_->processes())),
      thread_(base::start_thread("messages between processes", [this] { run(); })) {}

Crossings::~Crossings() {
  {
    const Lock lock(chips_.mutex);
    is_closing_ = true;
    const auto now = LocalChips::Clock::now();
    closing_limit_ = chips_.has_failed() ? failed_at_.value_or(now) + kFailedClosingLimit : now + kClosingLimit;
    wake();
  }
  thread_.join();
}

void Crossings::set_neighbours(std::vector<std::optional<Neighbour>> neighbours) {
  const Lock lock(chips_.mutex);
  neighbours_ = std::move(neighbours);
}

void Crossings::open(GroupCalls& calls) {
  CrossingGroup& group = groups_.emplace_back(
      calls, CrossingGroup::Processes{.owners = owners_, .neighbours = neighbours_, .board = board_.get()}, sums_);
  calls.crossing = &group;
  std::vector<Letter> early;
  std::ranges::copy_if(early_, std::back_inserter(early),
                       [&](const Letter& letter) { return letter.header.group == group.id(); });
  std::erase_if(early_, [&](const Letter& letter) { return letter.header.group == group.id(); });
  for (const Letter& letter : early) on_arrived(letter);
}

void Crossings::begin(CrossingGroup& group, int64_t sequence) {
  const Rendezvous& rendezvous = group.calls().rendezvous(sequence);
  for (const int64_t index : group.calls().local()) {
    const Call& call = *rendezvous.calls()[static_cast<size_t>(index)];
    MEGACPP_CHECK(call.workspace || terms_bytes(call, call.group->size()) == 0) << "no workspace: " << to_string(call);
  }
  CrossingCall& exchange = group.exchange(sequence);
  exchange.is_open = true;
  exchange.hash = movement_hash(*rendezvous.posted());
  active_.push_back({&group, sequence});
  if (group.reads_buffers()) group.open(sequence);
  if (!group.sends_bytes()) return;
  for (size_t other = 0; other < group.others().size(); ++other) {
    if (group.others()[other].neighbour != nullptr) continue;
    const Pieces pieces = group.incoming(sequence, other);
    skip_empty(pieces, exchange.others[other].in, pieces.all_pieces());
    mail_.post(group.others()[other].process,
               {.kind = FrameKind::arrived, .hash = exchange.hash, .group = group.id(), .sequence = sequence});
  }
  send_mail();
}

void Crossings::pass(CrossingGroup& group, int64_t sequence, int64_t gates) {
  if (group.reads_buffers()) group.pass(sequence, gates);
  if (group.sends_bytes()) wake();  // what was reduced
}

void Crossings::break_off(const PeerGone& gone, const Call& call) {
  if (broken_) return;
  const std::string why = gone.what();
  broken_ = {gone.process(), (gone.has_ended() ? " is gone (" + why + ")" : ": " + why) + " in " + to_string(call),
             LocalChips::Clock::now()};
}

// Letters leave at once where nobody uses the endpoint. Whoever does takes them along; bytes are the thread's, unless a
// chip waits.
void Crossings::send_mail() {
  if (!is_in_turn_) mail_.send(*endpoint_);
  if (needs_thread()) wake();
}

bool Crossings::needs_thread() const {
  return !mail_.is_empty() || !sending_.empty() ||
         std::ranges::any_of(active_, [](const Active& active) { return active.group->sends_bytes(); });
}

void Crossings::wake() {
  if (driver_) return chips_.wake(*driver_);
  no_driver_.notify_one();
  endpoint_->wake();
}

void Crossings::offer(int64_t chip, const InFlight& send) {
  const Call& call = *send.call;
  const std::span<const Call* const> calls(&send.call, 1);
  const int64_t process = owners_[static_cast<size_t>(call.peer)];
  const bool is_read = neighbours_[static_cast<size_t>(process)].has_value();
  mail_.post(process, {.kind = FrameKind::offer,
                       .hash = movement_hash(call),
                       .group = static_cast<uint64_t>(call.tag),
                       .sequence = send.number,
                       .from = chip,
                       .to = call.peer,
                       .addresses = is_read ? offered_.publish(calls, kOnlyMember) : AddressList{}});
  send_mail();
}

void Crossings::match(int64_t chip, int64_t from, int64_t tag) {
  while (InFlight* const recv = chips_.oldest_receive(chip, from, tag)) {
    const auto found = std::ranges::find_if(offers_, [&](const Letter& offer) {
      return offer.header.from == from && offer.header.to == chip && offer.header.group == static_cast<uint64_t>(tag);
    });
    if (found == offers_.end()) return;
    Letter offer = *found;
    offers_.erase(found);
    const bool is_same = offer.header.hash == movement_hash(*recv->call);
    recv->is_taken = true;
    offer.header.kind = is_same ? FrameKind::accept : FrameKind::what_call;
    offer.header.number = recv->number;
    const std::optional<Neighbour>& neighbour = neighbours_[static_cast<size_t>(offer.process)];
    if (is_same && neighbour) {
      recv->sent = {.peer = &neighbour->peer, .addresses = offer.header.addresses, .number = offer.header.sequence};
      chips_.wake(chip);
      continue;
    }
    mail_.post(offer.process, offer.header);
    send_mail();
    if (!is_same) continue;
    const Pieces pieces = message_pieces(*recv);
    skip_empty(pieces, recv->cursor, pieces.all_pieces());
    recv->is_moved = is_moved(*recv);
    if (recv->is_moved) chips_.wake(chip);
  }
}

Remote Crossings::find_remote(const InFlight& recv) {
  const Peer& peer = *recv.sent.peer;
  return {
      .peer = &peer,
      .parts = read_[static_cast<size_t>(peer.process)].look_up(peer, recv.sent.addresses, recv.call->parts.size())};
}

void Crossings::take(const InFlight& recv) {
  mail_.post(recv.sent.peer->process,
             {.kind = FrameKind::taken, .sequence = recv.sent.number, .from = recv.call->peer});
  send_mail();
}

// While a chip takes turns the thread does nothing.
void Crossings::run() {
  Lock lock(chips_.mutex);
  while (!is_closing_ || !may_close()) {
    if (driver_) {
      no_driver_.wait_for(lock, kDrivenWait);
    } else if (!take_turn(lock, Poll::always)) {
      const microseconds limit = is_closing_ ? kClosingWait : kIdleWait;
      lock.unlock();
      endpoint_->wait(limit);
      lock.lock();
    }
  }
}

bool Crossings::may_close() {
  return LocalChips::Clock::now() >= closing_limit_ || (mail_.is_empty() && endpoint_->is_flushed());
}

// What goes wrong here ends the run of all chips; turns go on, to tell the other processes.
bool Crossings::take_turn(Lock& lock, Poll poll) {
  if (is_in_turn_) return false;
  is_in_turn_ = true;
  bool is_busy = false;
  try {
    is_busy = pump(lock);
    if (poll == Poll::always || needs_thread()) is_busy |= receive(lock);
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    chips_.fail(lock, {chips_.local().front(), std::string("messages between processes: ") + error.what()});
  }
  is_in_turn_ = false;
  return is_busy;
}

bool Crossings::receive(Lock& lock) {
  if (chips_.has_failed() && !failed_at_) failed_at_ = LocalChips::Clock::now();
  lock.unlock();
  const bool has_come = endpoint_->poll(*this);
  lock.lock();
  if (has_come) pump(lock);  // it may be all that a call waits for
  look_for_losses(lock);
  return has_come;
}

void Crossings::hand_over() {
  driver_.reset();
  if (!chips_.wake_waiting() && needs_thread()) wake();
}

// Also for one that was handed the turns and found its call complete.
Crossings::Driver::~Driver() {
  if (crossings_ != nullptr && (is_driving() || !crossings_->driver_)) crossings_->hand_over();
}

bool Crossings::Driver::claim() {
  if (crossings_ == nullptr) return false;
  if (!crossings_->driver_) {
    crossings_->driver_ = chip_;
    last_event_ = LocalChips::Clock::now();
  }
  return is_driving();
}

bool Crossings::Driver::take_turn(Lock& lock) {
  const bool asks = ++crossings_->turns_ % kTurnsOfAPoll == 0 || pause().count() > 0;
  const bool is_busy = crossings_->take_turn(lock, asks ? Poll::always : Poll::if_needed);
  if (is_busy) last_event_ = LocalChips::Clock::now();
  return is_busy;
}

microseconds Crossings::Driver::pause() const {
  const auto quiet = std::chrono::duration_cast<microseconds>(LocalChips::Clock::now() - last_event_);
  return quiet < kAwake ? microseconds(0) : std::min(quiet / kPartOfQuiet, kLongestPause);
}

bool Crossings::pump(Lock& lock) {
  bool sent = mail_.send(*endpoint_);
  if (advance_exchanges(lock)) sent = true;
  if (send_messages(lock)) sent = true;
  return sent;
}

// Chips may begin calls while data moves: the list grows at its end, and only this thread takes from it.
bool Crossings::advance_exchanges(Lock& lock) {
  bool is_further = false;
  for (size_t i = 0; i < active_.size();) {
    const Active active = active_[i];
    if (active.group->look(active.sequence)) {
      wake_members(*active.group);
      is_further = true;
    }
    for (size_t other = 0; other < active.group->others().size(); ++other)
      while (!chips_.has_failed() && send_data(lock, active, other)) is_further = true;
    if (chips_.has_failed()) return is_further;
    if (is_finished(active))
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return is_further;
}

// One frame of a call to one process.
bool Crossings::send_data(Lock& lock, const Active& active, size_t other) {
  CrossingGroup& group = *active.group;
  CrossingCall& exchange = group.exchange(active.sequence);
  Crossing& crossing = exchange.others[other];
  const int64_t process = group.others()[other].process;
  if (crossing.gates == 0) return false;
  FrameHeader header = {.kind = FrameKind::data, .group = group.id(), .sequence = active.sequence, .from = -1};
  if (crossing.hash != exchange.hash) {
    header.kind = FrameKind::what_call;
    if (!crossing.was_asked) mail_.post(process, header);
    return !std::exchange(crossing.was_asked, true);
  }
  if (group.others()[other].neighbour != nullptr) return false;  // its chips read
  const Pieces pieces = group.outgoing(active.sequence, other);
  const bool is_reduced = group.calls().rendezvous(active.sequence).all_passed(2);
  const int64_t limit = is_reduced ? pieces.all_pieces() : pieces.operand_pieces();
  // Empty pieces are over at once, reduced or not: a process that gets no more may go.
  skip_empty(pieces, crossing.out, pieces.all_pieces());
  if (crossing.out.piece >= limit) return false;
  const std::span<std::byte> room = endpoint_->room(process);
  if (room.empty()) return false;
  Cursor cursor = crossing.out;
  chips_.without_lock(lock, [&] {
    header.bytes = static_cast<uint32_t>(pack(pieces, cursor, limit, room.subspan(sizeof(FrameHeader))));
    std::memcpy(room.data(), &header, sizeof(FrameHeader));
    endpoint_->send(process, sizeof(FrameHeader) + header.bytes);
  });
  crossing.out = cursor;
  skip_empty(pieces, crossing.out, pieces.all_pieces());
  return true;
}

bool Crossings::is_finished(const Active& active) {
  for (size_t other = 0; other < active.group->others().size(); ++other)
    if (!active.group->is_done_with(active.sequence, other)) return false;
  active.group->exchange(active.sequence).is_done = true;
  wake_members(*active.group);
  return true;
}

bool Crossings::send_messages(Lock& lock) {
  bool sent = false;
  for (size_t i = 0; i < sending_.size() && !chips_.has_failed();) {
    const Letter accepted = sending_[i];
    InFlight* const send = chips_.in_flight(accepted.header.from, accepted.header.sequence);
    MEGACPP_CHECK(send != nullptr) << chip_text(accepted.header.from) << " has finished a send that was accepted";
    while (!chips_.has_failed() && send_message(lock, accepted, *send)) sent = true;
    if (!is_moved(*send)) {
      ++i;
      continue;
    }
    send->is_moved = true;
    chips_.wake(accepted.header.from);
    sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return sent;
}

bool Crossings::send_message(Lock& lock, const Letter& accepted, InFlight& send) {
  const Pieces pieces = message_pieces(send);
  skip_empty(pieces, send.cursor, pieces.all_pieces());
  if (is_moved(send)) return false;
  const std::span<std::byte> room = endpoint_->room(accepted.process);
  if (room.empty()) return false;
  FrameHeader header = accepted.header;
  header.kind = FrameKind::message;
  chips_.without_lock(lock, [&] {
    const size_t bytes = pack(pieces, send.cursor, pieces.all_pieces(), room.subspan(sizeof(FrameHeader)));
    header.bytes = static_cast<uint32_t>(bytes);
    std::memcpy(room.data(), &header, sizeof(FrameHeader));
    endpoint_->send(accepted.process, sizeof(FrameHeader) + bytes);
  });
  return true;
}

void Crossings::on_frame(int64_t process, std::span<const std::byte> frame) {
  Letter letter = {.process = process, .header = {}};
  MEGACPP_CHECK(frame.size() >= sizeof(FrameHeader)) << "a frame of " << frame.size() << " bytes";
  std::memcpy(&letter.header, frame.data(), sizeof(FrameHeader));
  const std::span<const std::byte> bytes = frame.subspan(sizeof(FrameHeader));
  MEGACPP_CHECK(bytes.size() >= letter.header.bytes) << "a frame that is cut off";
  Lock lock(chips_.mutex);
  heard_[static_cast<size_t>(process)] = LocalChips::Clock::now();
  is_silent_[static_cast<size_t>(process)] = false;
  deal_with(lock, letter, bytes.first(letter.header.bytes));
}

void Crossings::deal_with(Lock& lock, const Letter& letter, std::span<const std::byte> bytes) {
  if (is_text(letter.header.kind)) {
    const std::optional<std::string> text = mail_.add(letter.process, letter.header, bytes);
    return text ? deal_with_text(lock, letter, *text) : void();
  }
  if (letter.header.kind == FrameKind::who_waits) {
    FrameHeader answer = letter.header;
    answer.kind = FrameKind::waits;
    return mail_.post(letter.process, answer, who_waits(letter.header));
  }
  if (chips_.has_failed()) return;  // buffers may be gone
  switch (letter.header.kind) {
    case FrameKind::arrived:
      return on_arrived(letter);
    case FrameKind::data:
      return on_data(lock, letter, bytes);
    case FrameKind::offer:
      offers_.push_back(letter);
      return match(letter.header.to, letter.header.from, static_cast<int64_t>(letter.header.group));
    case FrameKind::accept:
      return on_accept(letter);
    case FrameKind::message:
      return on_message(lock, letter, bytes);
    case FrameKind::taken:
      return on_taken(letter);
    case FrameKind::what_call:
      return tell_call(letter);
    default:
      MEGACPP_CHECK(false) << "a frame of unknown kind";
  }
}

void Crossings::on_arrived(const Letter& letter) {
  CrossingGroup* const group = group_with(letter.header.group);
  if (group == nullptr) return early_.push_back(letter);
  Crossing& crossing = group->exchange(letter.header.sequence).others[group->other_of(letter.process)];
  crossing.gates = 1;
  crossing.hash = letter.header.hash;
}

void Crossings::on_data(Lock& lock, const Letter& letter, std::span<const std::byte> bytes) {
  CrossingGroup* const group = group_with(letter.header.group);
  const int64_t sequence = letter.header.sequence;
  MEGACPP_CHECK(group != nullptr && group->exchange(sequence).is_open) << "bytes of a call that is not there";
  const size_t other = group->other_of(letter.process);
  CrossingCall& exchange = group->exchange(sequence);
  const Pieces pieces = group->incoming(sequence, other);
  Cursor cursor = exchange.others[other].in;
  chips_.without_lock(lock, [&] { unpack(pieces, cursor, bytes); });
  exchange.others[other].in = cursor;
  ++exchange.frames;
  if (cursor.piece >= pieces.operand_pieces()) wake_members(*group);
}

void Crossings::on_accept(const Letter& letter) {
  InFlight* const send = chips_.in_flight(letter.header.from, letter.header.sequence);
  MEGACPP_CHECK(send != nullptr) << "an accepted send of " << chip_text(letter.header.from) << " is not there";
  send->is_taken = true;
  sending_.push_back(letter);
}

void Crossings::on_message(Lock& lock, const Letter& letter, std::span<const std::byte> bytes) {
  InFlight* const recv = chips_.in_flight(letter.header.to, letter.header.number);
  MEGACPP_CHECK(recv != nullptr) << "a receive of " << chip_text(letter.header.to) << " is not there";
  chips_.without_lock(lock, [&] { unpack(message_pieces(*recv), recv->cursor, bytes); });
  ++recv->frames;
  recv->is_moved = is_moved(*recv);
  if (recv->is_moved) chips_.wake(letter.header.to);
}

void Crossings::on_taken(const Letter& letter) {
  InFlight* const send = chips_.in_flight(letter.header.from, letter.header.sequence);
  MEGACPP_CHECK(send != nullptr) << "a send of " << chip_text(letter.header.from) << " that was read is not there";
  send->is_taken = send->is_moved = true;
  chips_.wake(letter.header.from);
}

CrossingGroup* Crossings::group_with(uint64_t id) {
  const auto group = std::ranges::find(groups_, id, &CrossingGroup::id);
  return group == groups_.end() ? nullptr : &*group;
}

void Crossings::wake_members(CrossingGroup& group) {
  for (const int64_t index : group.calls().local()) chips_.wake(group.calls().members()[static_cast<size_t>(index)]);
}

}  // namespace megacpp::collectives
