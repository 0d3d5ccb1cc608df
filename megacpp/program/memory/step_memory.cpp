// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/step_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "megacpp/program/memory/buffers.h"
#include "megacpp/program/ops/tier_copy.h"

namespace megacpp::memory {
namespace {

using LetterBytes = std::vector<int64_t>;  // by letter

class StepWalk {
 public:
  StepWalk(const std::vector<const ir::Graph*>& programs, const schedule::Target& target)
      : programs_(programs), target_(target) {
    for (const ir::Graph* graph : programs)
      for (const ir::Node& node : graph->nodes()) letters_.emplace(ir::scope_letter(node.scope), 0);
    size_t next = 0;
    for (auto& [_, index] : letters_) index = next++;
  }

  const std::map<std::string, size_t, std::less<>>& letters() const { return letters_; }

  /// By node of all programs.
  std::vector<LetterBytes> run() {
    const LetterBytes state = state_bytes();
    std::vector<LetterBytes> alive;
    for (const ir::Graph* graph : programs_) {
      const size_t begin = alive.size(), nodes = graph->nodes().size();
      alive.resize(begin + nodes, LetterBytes(letters_.size(), 0));
      add_temporaries(*graph, {alive.data() + begin, nodes});
      for (size_t n = begin; n < alive.size(); ++n)
        std::ranges::transform(alive[n], state, alive[n].begin(), std::plus());
    }
    return alive;
  }

 private:
  size_t index_of(const std::string& scope) const { return letters_.find(ir::scope_letter(scope))->second; }

  // Programs share state by name.
  LetterBytes state_bytes() const {
    LetterBytes bytes(letters_.size(), 0);
    std::set<std::string> seen;
    for (const ir::Graph* graph : programs_)
      for (const ir::NodeId id : graph->inputs()) {
        const ir::Node& node = graph->node(id);
        if (ops::tier_of(node) == ir::Tier::device && seen.insert(node.attrs.text("name")).second)
          bytes[index_of(node.scope)] += target_.bytes_of_state(graph->type(node.results[0]));
      }
    return bytes;
  }

  // What each node begins and ends first, then the sums.
  void add_temporaries(const ir::Graph& graph, std::span<LetterBytes> alive) const {
    for (const Buffer& buffer : assign_buffers(graph, target_).buffers) {
      if (!buffer.state.empty() || buffer.tier != ir::Tier::device) continue;
      const size_t letter = index_of(buffer.scope);
      alive[buffer.first][letter] += buffer.bytes;
      if (buffer.last + size_t{1} < alive.size()) alive[buffer.last + size_t{1}][letter] -= buffer.bytes;
    }
    for (size_t n = 1; n < alive.size(); ++n)
      std::ranges::transform(alive[n], alive[n - 1], alive[n].begin(), std::plus());
  }

  const std::vector<const ir::Graph*>& programs_;
  const schedule::Target& target_;
  std::map<std::string, size_t, std::less<>> letters_;
};

int64_t total(const LetterBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

}  // namespace

std::vector<LetterMemory> memory_along_step(const std::vector<const ir::Graph*>& programs,
                                            const schedule::Target& target, size_t parts) {
  StepWalk walk(programs, target);
  const std::vector<LetterBytes> alive = walk.run();
  std::vector<LetterMemory> curves;
  for (const auto& [letter, _] : walk.letters()) curves.push_back({letter, {}});
  const size_t count = std::min(parts, alive.size());
  for (size_t part = 0; part < count; ++part) {
    const auto begin = alive.begin() + static_cast<std::ptrdiff_t>(part * alive.size() / count);
    const auto end = alive.begin() + static_cast<std::ptrdiff_t>((part + 1) * alive.size() / count);
    const auto fullest = std::ranges::max_element(begin, end, {}, total);
    for (size_t letter = 0; letter < curves.size(); ++letter) curves[letter].bytes.push_back((*fullest)[letter]);
  }
  return curves;
}

}  // namespace megacpp::memory
