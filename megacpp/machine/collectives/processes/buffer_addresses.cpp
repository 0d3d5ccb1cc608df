// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/processes/buffer_addresses.h"

#include <utility>

namespace megacpp::collectives {
namespace {

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// FNV-1a over words.
uint64_t hash_of(std::span<const PartAddress> entries) {
  uint64_t hash = 14695981039346656037u;
  for (const PartAddress& entry : entries)
    for (const uint64_t word : {entry.in, entry.out}) hash = (hash ^ word) * 1099511628211u;
  return hash;
}

}  // namespace

AddressList PublishedAddresses::publish(std::span<const Call* const> calls, std::span<const int64_t> members) {
  std::vector<PartAddress>& entries = lists_[calls[static_cast<size_t>(members.front())]];
  entries.clear();
  for (const int64_t member : members)
    for (const Part& part : calls[static_cast<size_t>(member)]->parts)
      entries.push_back({.in = address_of(part.in), .out = address_of(part.out)});
  return {.address = address_of(entries.data()), .hash = hash_of(entries)};
}

std::span<const PartAddress> ReadAddresses::look_up(const Peer& peer, const AddressList& list, size_t count) {
  Known& known = lists_[list.address];
  if (known.hash == list.hash && known.entries.size() == count) return known.entries;
  std::vector<PartAddress> entries(count);
  PeerReads reads(peer);
  reads.add(entries.data(), list.address, static_cast<int64_t>(count * sizeof(PartAddress)));
  reads.flush();
  known = {.hash = list.hash, .entries = std::move(entries)};
  return known.entries;
}

}  // namespace megacpp::collectives
