// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/contents.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "megacpp/program/memory/offsets.h"

namespace megacpp::memory {
namespace {

constexpr size_t kLargestShown = 20;

bool is_temporary_on_device(const Buffer& buffer) { return buffer.state.empty() && buffer.tier == ir::Tier::device; }

}  // namespace

Contents contents_at(const std::vector<StateSlot>& state, const Buffers& buffers, uint32_t node,
                     const schedule::Target& target) {
  Contents contents;
  std::map<std::tuple<ir::Role, std::string, std::string>, int64_t> sums;
  const auto count = [&](ir::Role role, const std::string& scope, const std::string& what, int64_t bytes) {
    sums[{role, std::string(ir::scope_letter(scope)), std::string(ir::scope_block(scope))}] += bytes;
    contents.largest.push_back({what, scope, role, bytes});
    contents.bytes += bytes;
  };
  for (const StateSlot& slot : state)
    if (slot.tier == ir::Tier::device)
      count(slot.role, slot.scope, slot.name + " " + to_string(slot.type), target.bytes_of_state(slot.type));
  for (const Buffer& buffer : buffers.buffers)
    if (is_temporary_on_device(buffer) && buffer.first <= node && node <= buffer.last)
      count(buffer.role, buffer.scope, buffer.what, buffer.bytes);
  for (const auto& [key, bytes] : sums)
    contents.items.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), bytes});
  std::stable_sort(contents.largest.begin(), contents.largest.end(),
                   [](const Allocation& a, const Allocation& b) { return a.bytes > b.bytes; });
  if (contents.largest.size() > kLargestShown) contents.largest.resize(kLargestShown);
  return contents;
}

std::vector<int64_t> alive_by_node(const ir::Graph& graph, const Buffers& buffers, const schedule::Target& target) {
  std::vector<int64_t> alive(graph.nodes().size() + 1, 0);  // first what changes there
  for (const Buffer& buffer : buffers.buffers) {
    if (!is_temporary_on_device(buffer)) continue;
    const int64_t bytes = aligned_bytes(buffer.bytes, target.alignment);
    alive[buffer.first] += bytes;
    if (buffer.last + size_t{1} < alive.size()) alive[buffer.last + size_t{1}] -= bytes;
  }
  alive.pop_back();
  for (size_t node = 1; node < alive.size(); ++node) alive[node] += alive[node - 1];
  return alive;
}

}  // namespace megacpp::memory
