// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/exchange_group.h"

#include <algorithm>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/communicator.h"

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

std::vector<Term> terms_of(const std::vector<ExchangeGroup::Other>& others, size_t members, Sums sums) {
  std::vector<Term> terms(members);
  int64_t next = 0;
  for (const ExchangeGroup::Other& other : others) {
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

ExchangeGroup::ExchangeGroup(GroupCalls& calls, const Processes& processes, Sums sums)
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
    if (neighbour && own_flags_ == nullptr) own_flags_ = processes.flags->add_group(id_);
    MEGACPP_CHECK(!neighbour || own_flags_ != nullptr) << "more groups than there are progress flags for";
  }
  terms_ = terms_of(others_, calls.members().size(), sums);
  ExchangeCall fresh;
  fresh.others.resize(others_.size());
  read_.resize(others_.size());
  ring_.assign(static_cast<size_t>(2 * kMaxInFlight), fresh);
}

size_t ExchangeGroup::other_of(int64_t process) const {
  const auto other = std::ranges::find(others_, process, &Other::process);
  MEGACPP_CHECK(other != others_.end()) << "process " << process << " is not in the group";
  return static_cast<size_t>(other - others_.begin());
}

void ExchangeGroup::open(int64_t sequence) {
  const AddressList addresses = published_.publish(calls_.rendezvous(sequence).calls(), calls_.local());
  own_flags_[static_cast<size_t>(sequence) % kGroupFlags].open(sequence, {exchange(sequence).hash, addresses});
}

void ExchangeGroup::pass(int64_t sequence, int64_t gates) {
  own_flags_[static_cast<size_t>(sequence) % kGroupFlags].pass(sequence, gates);
}

bool ExchangeGroup::look(int64_t sequence) {
  ExchangeCall& exchange = this->exchange(sequence);
  bool is_further = false;
  for (size_t i = 0; i < others_.size(); ++i) {
    Other& other = others_[i];
    if (other.neighbour == nullptr) continue;
    if (other.gates == nullptr) other.gates = other.neighbour->flags->find_group(id_);
    if (other.gates == nullptr) continue;
    const ProgressFlag& slot = other.gates[static_cast<size_t>(sequence) % kGroupFlags];
    OtherProgress& progress = exchange.others[i];
    const int64_t gates = slot.gates(sequence);
    if (gates <= progress.gates) continue;
    if (progress.gates == 0) {
      progress.hash = slot.call().hash;
      progress.addresses = slot.call().addresses;
    }
    progress.gates = gates;
    ++calls_.rendezvous(sequence).arrivals;
    is_further = true;
  }
  return is_further;
}

void ExchangeGroup::find_remotes(int64_t sequence, std::span<Remote> remotes) {
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

Pieces ExchangeGroup::outgoing(int64_t sequence, size_t other) {
  return {.calls = calls_.rendezvous(sequence).calls(),
          .sources = calls_.local(),
          .targets = others_[other].members,
          .is_sent = true,
          .sums = sums_,
          .pointers = pointers_};
}

Pieces ExchangeGroup::incoming(int64_t sequence, size_t other) {
  return {.calls = calls_.rendezvous(sequence).calls(),
          .sources = others_[other].members,
          .targets = calls_.local(),
          .is_sent = false,
          .sums = sums_,
          .terms = terms_};
}

bool ExchangeGroup::may_step(int64_t sequence, int64_t step) {
  if (this->exchange(sequence).is_broken || !have_neighbours_passed(sequence, step)) return false;
  const Call& call = *calls_.rendezvous(sequence).posted();
  if (step != 1 || (call.kind != Kind::reduce_scatter && call.kind != Kind::all_reduce)) return true;
  const ExchangeCall& exchange = this->exchange(sequence);
  if (!exchange.is_open) return false;
  for (size_t other = 0; other < others_.size(); ++other)
    if (others_[other].neighbour == nullptr &&
        exchange.others[other].in.piece < incoming(sequence, other).operand_pieces())
      return false;
  return true;
}

bool ExchangeGroup::have_neighbours_passed(int64_t sequence, int64_t gates) {
  const ExchangeCall& exchange = this->exchange(sequence);
  for (size_t other = 0; other < others_.size(); ++other) {
    const OtherProgress& progress = exchange.others[other];
    if (others_[other].neighbour != nullptr && (progress.gates < gates || progress.hash != exchange.hash)) return false;
  }
  return true;
}

bool ExchangeGroup::is_done_with(int64_t sequence, size_t other) {
  const ExchangeCall& exchange = this->exchange(sequence);
  const OtherProgress& progress = exchange.others[other];
  if (progress.gates == 0 || progress.hash != exchange.hash) return false;
  if (others_[other].neighbour != nullptr) return progress.gates > steps_of(calls_.rendezvous(sequence).posted()->kind);
  return progress.in.piece == incoming(sequence, other).all_pieces() &&
         progress.out.piece == outgoing(sequence, other).all_pieces();
}

std::vector<int64_t> ExchangeGroup::chips_behind(int64_t sequence) {
  const Rendezvous& rendezvous = calls_.rendezvous(sequence);
  int64_t most = 1;  // gates passed by those who are furthest; others wait for whoever has passed fewer
  for (const int64_t index : calls_.local()) most = std::max(most, rendezvous.gates_passed(index));
  std::vector<int64_t> chips;
  for (const int64_t index : calls_.local()) {
    const int64_t gates = rendezvous.gates_passed(index);
    const bool is_due = rendezvous.is_step_due(index) && may_step(sequence, gates);
    if (gates < most || is_due) chips.push_back(calls_.members()[static_cast<size_t>(index)]);
  }
  return chips;
}

void ExchangeGroup::reset(int64_t sequence) {
  ExchangeCall& exchange = this->exchange(sequence);
  for (OtherProgress& progress : exchange.others) progress = {};
  exchange.is_open = exchange.is_broken = false;
  exchange.hash = 0;
}

}  // namespace megacpp::collectives
