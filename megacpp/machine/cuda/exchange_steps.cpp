// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/exchange_steps.h"

#include <array>
#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/runs.h"
#include "megacpp/machine/cuda/movement_table.h"

namespace megacpp::runtime::cuda {
namespace {

using collectives::Call;
using collectives::Kind;
using collectives::Pair;
using collectives::Runs;

constexpr int64_t kAreaAlignment = 256;  // of what the workspace is divided into

int64_t aligned_area(int64_t bytes) { return (bytes + kAreaAlignment - 1) / kAreaAlignment * kAreaAlignment; }

bool reduces_terms(const Call& call) { return call.kind == Kind::reduce_scatter || call.kind == Kind::all_reduce; }

int64_t exchanged_bytes(const Call& call, size_t part) {
  return ir::num_elements(call.parts[part].shape) * ir::dtype_bytes(call.dtype);
}

// Runs that follow each other without a gap.
bool is_in_one_piece(const Runs& runs, const Runs::Side& side) {
  int64_t length = runs.run_bytes;
  for (size_t loop = runs.counts.size(); loop-- > 0;) {
    if (runs.counts[loop] > 1 && side.strides[loop] != length) return false;
    length *= runs.counts[loop];
  }
  return true;
}

Runs::Side one_piece(const Runs& runs) {
  return {
      .first = 0,
      .strides = {runs.counts[1] * runs.counts[2] * runs.run_bytes, runs.counts[2] * runs.run_bytes, runs.run_bytes}};
}

Runs packed_runs(Runs runs) {
  runs.target = one_piece(runs);
  return runs;
}

Runs unpacked_runs(Runs runs) {
  runs.source = one_piece(runs);
  return runs;
}

// Of every pair alike: pieces differ in where they begin.
bool is_packed(const Call& call, size_t part, int64_t members) {
  const Runs runs = collectives::runs_between(call, part, {.from = 0, .to = 0, .members = members});
  return (call.kind == Kind::reduce_scatter || call.kind == Kind::all_to_all) && !is_in_one_piece(runs, runs.source);
}
bool is_unpacked(const Call& call, size_t part, int64_t members) {
  const Runs runs = collectives::runs_between(call, part, {.from = 0, .to = 0, .members = members});
  return (call.kind == Kind::all_gather || call.kind == Kind::all_to_all) && !is_in_one_piece(runs, runs.target);
}

int64_t packed_bytes(const Call& call, size_t part, int64_t members) {
  return is_packed(call, part, members) ? exchanged_bytes(call, part) : 0;
}
int64_t unpacked_bytes(const Call& call, size_t part, int64_t members) {
  if (!is_unpacked(call, part, members)) return 0;
  return exchanged_bytes(call, part) * (call.kind == Kind::all_gather ? members : 1);
}

template <typename BytesOfPart>
int64_t area_bytes(const Call& call, int64_t members, const BytesOfPart& bytes_of_part) {
  int64_t bytes = 0;
  for (size_t part = 0; part < call.parts.size(); ++part) bytes += aligned_area(bytes_of_part(call, part, members));
  return bytes;
}

// One member's side of a call.
class ExchangeOfMember {
 public:
  ExchangeOfMember(const Call& call, std::span<Address> scratch, ExchangeSteps& steps)
      : call_(call),
        steps_(steps),
        own_(call.group->index),
        members_(call.group->size()),
        summands_(scratch.first(static_cast<size_t>(members_))),
        packed_at_(workspace() + static_cast<Address>(aligned_area(terms_bytes()))),
        unpacked_at_(packed_at_ + static_cast<Address>(area_bytes(call, members_, packed_bytes))) {}

  void run() {
    pack();
    if (members_ > 1) exchange_pieces();
    reduces_terms(call_) ? reduce() : unpack();
    if (members_ > 1 && call_.kind == Kind::all_reduce) exchange_slices();
  }

 private:
  Address workspace() const { return reinterpret_cast<Address>(call_.workspace); }
  Address operand(size_t part) const { return reinterpret_cast<Address>(call_.parts[part].in); }
  Address result(size_t part) const { return reinterpret_cast<Address>(call_.parts[part].out); }
  int64_t terms_bytes() const { return reduces_terms(call_) ? collectives::terms_bytes(call_, members_) : 0; }
  Runs runs(size_t part, int64_t from, int64_t to) const {
    return collectives::runs_between(call_, part, {.from = from, .to = to, .members = members_});
  }

  // Where a part begins in an area, and in it the piece of a member.
  template <typename BytesOfPart>
  Address piece_in(Address area, const BytesOfPart& bytes_of_part, size_t part, int64_t member) const {
    for (size_t before = 0; before < part; ++before)
      area += static_cast<Address>(aligned_area(bytes_of_part(call_, before, members_)));
    return area + static_cast<Address>(member * (bytes_of_part(call_, part, members_) / members_));
  }
  Address packed_piece(size_t part, int64_t to) const { return piece_in(packed_at_, packed_bytes, part, to); }
  Address unpacked_piece(size_t part, int64_t from) const { return piece_in(unpacked_at_, unpacked_bytes, part, from); }
  Address term(size_t part, int64_t from) const {
    return workspace() + static_cast<Address>(collectives::term_offset(call_, part, from, members_));
  }

  // Our own piece of a sum becomes a term like those of the others, which have no gaps.
  void pack() {
    const EmitTable emit = [this](const CollectiveParams& table) { steps_.move(table); };
    TableWriter table({.combine = Combine::copy, .dtype = call_.dtype}, emit);
    for (size_t part = 0; part < call_.parts.size(); ++part) {
      if (!is_packed(call_, part, members_)) continue;
      for (int64_t to = 0; to < members_; ++to) {
        if (to == own_ && !reduces_terms(call_)) continue;
        const std::array<Address, 1> from = {operand(part)};
        const std::array<Address, 1> target = {to == own_ ? term(part, own_) : packed_piece(part, to)};
        table.add({.sources = from, .targets = target, .runs = packed_runs(runs(part, own_, to))});
      }
    }
    table.finish();
  }

  void exchange_pieces() {
    steps_.begin_messages();
    for (size_t part = 0; part < call_.parts.size(); ++part) {
      const bool is_packed_part = is_packed(call_, part, members_),
                 is_unpacked_part = is_unpacked(call_, part, members_);
      for (int64_t step = 1; step < members_; ++step) {
        const int64_t to = (own_ + step) % members_, from = (own_ + members_ - step) % members_;
        if (const Runs ours = runs(part, own_, to); ours.bytes() > 0)
          steps_.send(
              {to, is_packed_part ? packed_piece(part, to) : operand(part) + static_cast<Address>(ours.source.first),
               ours.bytes()});
        if (const Runs theirs = runs(part, from, own_); theirs.bytes() > 0)
          steps_.receive({from,
                          reduces_terms(call_) ? term(part, from)
                          : is_unpacked_part   ? unpacked_piece(part, from)
                                               : result(part) + static_cast<Address>(theirs.target.first),
                          theirs.bytes()});
      }
    }
    steps_.end_messages();
  }

  void unpack() {
    const EmitTable emit = [this](const CollectiveParams& table) { steps_.move(table); };
    TableWriter table({.combine = Combine::copy, .dtype = call_.dtype}, emit);
    for (size_t part = 0; part < call_.parts.size(); ++part) {
      if (exchanged_bytes(call_, part) == 0) continue;
      const std::array<Address, 1> to = {result(part)};
      const std::array<Address, 1> own = {operand(part)};
      table.add({.sources = own, .targets = to, .runs = runs(part, own_, own_)});
      if (!is_unpacked(call_, part, members_)) continue;
      for (int64_t from = 0; from < members_; ++from) {
        if (from == own_) continue;
        const std::array<Address, 1> piece = {unpacked_piece(part, from)};
        table.add({.sources = piece, .targets = to, .runs = unpacked_runs(runs(part, from, own_))});
      }
    }
    table.finish();
  }

  void reduce() {
    const EmitTable emit = [this](const CollectiveParams& table) { steps_.move(table); };
    const bool is_sum = call_.reduction == collectives::Reduction::sum;
    TableWriter table({.combine = is_sum ? Combine::sum : Combine::max, .dtype = call_.dtype}, emit);
    for (size_t part = 0; part < call_.parts.size(); ++part) {
      const Runs own = runs(part, own_, own_);
      for (int64_t from = 0; from < members_; ++from) summands_[static_cast<size_t>(from)] = term(part, from);
      if (!is_packed(call_, part, members_))
        summands_[static_cast<size_t>(own_)] = operand(part) + static_cast<Address>(own.source.first);
      const int64_t place = call_.kind == Kind::all_reduce ? own.source.first : 0;
      const std::array<Address, 1> sum = {result(part) + static_cast<Address>(place)};
      table.add({.sources = summands_, .targets = sum, .runs = whole_run(own.bytes())});
    }
    table.finish();
  }

  // Each member has reduced one slice for all.
  void exchange_slices() {
    steps_.begin_messages();
    for (size_t part = 0; part < call_.parts.size(); ++part)
      for (int64_t step = 1; step < members_; ++step) {
        const int64_t to = (own_ + step) % members_, from = (own_ + members_ - step) % members_;
        const Runs ours = runs(part, from, own_), theirs = runs(part, own_, from);
        if (ours.bytes() > 0) steps_.send({to, result(part) + static_cast<Address>(ours.source.first), ours.bytes()});
        if (theirs.bytes() > 0)
          steps_.receive({from, result(part) + static_cast<Address>(theirs.source.first), theirs.bytes()});
      }
    steps_.end_messages();
  }

  const Call& call_;
  ExchangeSteps& steps_;
  const int64_t own_;
  const int64_t members_;
  const std::span<Address> summands_;  // by index
  const Address packed_at_;
  const Address unpacked_at_;
};

void run_message(const Call& call, ExchangeSteps& steps) {
  const bool sends = call.kind == Kind::send;
  const int64_t other = sends ? 1 : 0;  // the sender is member 0
  steps.begin_messages();
  for (size_t part = 0; part < call.parts.size(); ++part) {
    const int64_t bytes = exchanged_bytes(call, part);
    if (bytes == 0) continue;
    const void* const data = sends ? call.parts[part].in : call.parts[part].out;
    const ExchangeSteps::Message message = {other, reinterpret_cast<Address>(data), bytes};
    sends ? steps.send(message) : steps.receive(message);
  }
  steps.end_messages();
}

}  // namespace

int64_t exchange_workspace(const Call& call, int64_t members) {
  if (collectives::is_point_to_point(call.kind)) return 0;
  MEGACPP_REQUIRE(!reduces_terms(call) || members <= kMaxExchangeMembers, E1505,
                  ({.where = "layout",
                    .got = "a sum over " + std::to_string(members) + " chips of several processes",
                    .wanted = "at most " + std::to_string(kMaxExchangeMembers) + " chips in a sum",
                    .next = "split the axis: layout.data_parallel x layout.expert_parallel, or tensor_parallel"}));
  const int64_t terms = reduces_terms(call) ? collectives::terms_bytes(call, members) : 0;
  return aligned_area(terms) + area_bytes(call, members, packed_bytes) + area_bytes(call, members, unpacked_bytes);
}

void run_exchange(const Call& call, std::span<Address> scratch, ExchangeSteps& steps) {
  if (collectives::is_point_to_point(call.kind)) return run_message(call, steps);
  MEGACPP_CHECK((!reduces_terms(call) || call.group->size() <= kMaxExchangeMembers) &&
                scratch.size() >= call.group->members.size())
      << call.group->size() << " members: " << to_string(call);
  ExchangeOfMember(call, scratch, steps).run();
}

}  // namespace megacpp::runtime::cuda
