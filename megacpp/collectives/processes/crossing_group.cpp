// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/crossing_group.h"

#include <algorithm>
#include <map>

#include "megacpp/base/error.h"
#include "megacpp/collectives/communicator.h"

namespace megacpp::collectives {
namespace {

// Every process computes it from the members alone.
uint64_t group_id(const std::vector<int64_t>& members) {
  uint64_t id = 14695981039346656037u;
  for (const int64_t member : members)
    for (int shift = 0; shift < 64; shift += 8)
      id = (id ^ (static_cast<uint64_t>(member) >> shift & 0xFF)) * 1099511628211u;
  return id;
}

std::vector<Term> terms_of(const std::vector<CrossingGroup::Other>& others, size_t members, Sums sums) {
  std::vector<Term> terms(members);
  int64_t next = 0;
  for (const CrossingGroup::Other& other : others) {
    const bool is_sum = sums == Sums::fast && other.members.size() > 1 && other.neighbour == nullptr;
    if (is_sum) terms[static_cast<size_t>(other.members.front())] = {.slot = next, .is_sum = true};
    for (const int64_t member : other.members) {
      if (!is_sum) terms[static_cast<size_t>(member)] = {.slot = next};
      ++next;
    }
  }
  return terms;
}

}  // namespace

CrossingGroup::CrossingGroup(GroupCalls& calls, const Processes& processes, Sums sums)
    : calls_(calls), id_(group_id(calls.members())), sums_(sums), pointers_(calls.local().size()) {
  std::map<int64_t, std::vector<int64_t>> members;  // by process
  for (size_t index = 0; index < calls.members().size(); ++index)
    if (std::ranges::find(calls.local(), static_cast<int64_t>(index)) == calls.local().end())
      members[processes.owners[static_cast<size_t>(calls.members()[index])]].push_back(static_cast<int64_t>(index));
  for (auto& [process, indices] : members) {
    const std::optional<Neighbour>& neighbour = processes.neighbours[static_cast<size_t>(process)];
    others_.push_back(
        {.process = process, .members = std::move(indices), .neighbour = neighbour ? &*neighbour : nullptr});
    if (!neighbour) sends_bytes_ = true;
    if (neighbour && own_gates_ == nullptr) own_gates_ = processes.board->add_group(id_);
    MEGACPP_CHECK(!neighbour || own_gates_ != nullptr) << "more groups than a board has room for";
  }
  terms_ = terms_of(others_, calls.members().size(), sums);
  CrossingCall fresh;
  fresh.others.resize(others_.size());
  read_.resize(others_.size());
  ring_.assign(static_cast<size_t>(2 * kMaxInFlight), fresh);
}

size_t CrossingGroup::other_of(int64_t process) const {
  const auto other = std::ranges::find(others_, process, &Other::process);
  MEGACPP_CHECK(other != others_.end()) << "process " << process << " is not in the group";
  return static_cast<size_t>(other - others_.begin());
}

void CrossingGroup::open(int64_t sequence) {
  const AddressList addresses = published_.publish(calls_.rendezvous(sequence).calls(), calls_.local());
  own_gates_[static_cast<size_t>(sequence) % kGateSlots].open(sequence, {exchange(sequence).hash, addresses});
}

void CrossingGroup::pass(int64_t sequence, int64_t gates) {
  own_gates_[static_cast<size_t>(sequence) % kGateSlots].pass(sequence, gates);
}

bool CrossingGroup::look(int64_t sequence) {
  CrossingCall& exchange = this->exchange(sequence);
  bool is_further = false;
  for (size_t i = 0; i < others_.size(); ++i) {
    Other& other = others_[i];
    if (other.neighbour == nullptr) continue;
    if (other.gates == nullptr) other.gates = other.neighbour->board->find_group(id_);
    if (other.gates == nullptr) continue;
    const GateSlot& slot = other.gates[static_cast<size_t>(sequence) % kGateSlots];
    Crossing& crossing = exchange.others[i];
    const int64_t gates = slot.gates(sequence);
    if (gates <= crossing.gates) continue;
    if (crossing.gates == 0) {
      crossing.hash = slot.call().hash;
      crossing.addresses = slot.call().addresses;
    }
    crossing.gates = gates;
    ++exchange.frames;
    is_further = true;
  }
  return is_further;
}

void CrossingGroup::find_remotes(int64_t sequence, std::span<Remote> remotes) {
  const size_t parts = calls_.rendezvous(sequence).posted()->parts.size();
  std::ranges::fill(remotes, Remote{});
  for (size_t other = 0; other < others_.size(); ++other) {
    if (others_[other].neighbour == nullptr) continue;
    const Peer& peer = others_[other].neighbour->peer;
    const std::vector<int64_t>& members = others_[other].members;
    const std::span<const PartAddress> buffers =
        read_[other].look_up(peer, exchange(sequence).others[other].addresses, parts * members.size());
    for (size_t k = 0; k < members.size(); ++k)
      remotes[static_cast<size_t>(members[k])] = {.peer = &peer, .parts = buffers.subspan(k * parts, parts)};
  }
}

Pieces CrossingGroup::outgoing(int64_t sequence, size_t other) {
  return {.calls = calls_.rendezvous(sequence).calls(),
          .sources = calls_.local(),
          .targets = others_[other].members,
          .is_sent = true,
          .sums = sums_,
          .pointers = pointers_};
}

Pieces CrossingGroup::incoming(int64_t sequence, size_t other) {
  return {.calls = calls_.rendezvous(sequence).calls(),
          .sources = others_[other].members,
          .targets = calls_.local(),
          .is_sent = false,
          .sums = sums_,
          .terms = terms_};
}

bool CrossingGroup::may_step(int64_t sequence, int64_t step) {
  if (this->exchange(sequence).is_broken || !have_neighbours_passed(sequence, step)) return false;
  const Call& call = *calls_.rendezvous(sequence).posted();
  if (step != 1 || (call.kind != Kind::reduce_scatter && call.kind != Kind::all_reduce)) return true;
  const CrossingCall& exchange = this->exchange(sequence);
  if (!exchange.is_open) return false;
  for (size_t other = 0; other < others_.size(); ++other)
    if (others_[other].neighbour == nullptr &&
        exchange.others[other].in.piece < incoming(sequence, other).operand_pieces())
      return false;
  return true;
}

bool CrossingGroup::have_neighbours_passed(int64_t sequence, int64_t gates) {
  const CrossingCall& exchange = this->exchange(sequence);
  for (size_t other = 0; other < others_.size(); ++other) {
    const Crossing& crossing = exchange.others[other];
    if (others_[other].neighbour != nullptr && (crossing.gates < gates || crossing.hash != exchange.hash)) return false;
  }
  return true;
}

bool CrossingGroup::is_done_with(int64_t sequence, size_t other) {
  const CrossingCall& exchange = this->exchange(sequence);
  const Crossing& crossing = exchange.others[other];
  if (crossing.gates == 0 || crossing.hash != exchange.hash) return false;
  if (others_[other].neighbour != nullptr) return crossing.gates > steps_of(calls_.rendezvous(sequence).posted()->kind);
  return crossing.in.piece == incoming(sequence, other).all_pieces() &&
         crossing.out.piece == outgoing(sequence, other).all_pieces();
}

void CrossingGroup::reset(int64_t sequence) {
  CrossingCall& exchange = this->exchange(sequence);
  for (Crossing& crossing : exchange.others) crossing = {};
  exchange.is_open = exchange.is_done = exchange.is_broken = false;
  exchange.hash = 0;
  exchange.frames = 0;
  exchange.other_call.clear();
}

}  // namespace megacpp::collectives
