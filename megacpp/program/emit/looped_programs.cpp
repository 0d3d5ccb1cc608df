// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/looped_programs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::emit {

LoopedPrograms::LoopedPrograms(const std::vector<const ir::Graph*>& graphs, const FunctionOptions& options) {
  for (const ir::Graph* graph : graphs) programs_.push_back(outlined(*graph));
  std::vector<const Outlined*> all;
  for (const Outlined& program : programs_) all.push_back(&program);
  passes_.resize(programs_.size());
  const std::optional<BlockLoop> loop = options.has_loops ? find_block_loop(all) : std::nullopt;
  if (!loop) return;
  for (size_t p = 0; p < programs_.size(); ++p) passes_[p] = passes_of(programs_[p], *loop);
  for (size_t p = 0; p < programs_.size(); ++p) add_stacks(stacked_inputs(programs_[p], passes_[p]));
  for (size_t p = 0; p < programs_.size(); ++p) add_stacks(stacked_reports(programs_[p], passes_[p]));
}

void LoopedPrograms::add_stacks(std::vector<std::vector<std::string>> stacks) {
  for (std::vector<std::string>& names : stacks) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return stack_of_.contains(name); })) continue;
    for (const std::string& name : names) stack_of_[name] = stacks_.size();
    stacks_.push_back(std::move(names));
  }
}

std::vector<Slot> LoopedPrograms::slots(const std::vector<std::string>& names) const {
  std::vector<Slot> slots;
  std::map<size_t, size_t> met;  // how many of a stack's tensors
  for (const std::string& name : names) {
    const auto stack = stack_of_.find(name);
    if (stack == stack_of_.end())
      slots.push_back({{name}});
    else if (++met[stack->second] == 1)
      slots.push_back({stacks_[stack->second]});
  }
  for (const auto& [stack, count] : met)
    MEGACPP_CHECK(count == stacks_[stack].size())
        << "only " << count << " tensors of the stack of " << stacks_[stack][0];
  return slots;
}

}  // namespace megacpp::emit
