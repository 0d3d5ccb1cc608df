// SPDX-License-Identifier: Apache-2.0
// The values of a graph while its function is written: which have a name, which are in a stack, who reads them and what
// becomes of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/emit/function.h"
#include "megacpp/program/ops/hlo_writer.h"

namespace megacpp::emit {

/// Where each value is, and what the stacks are called at this point.
class Stacks {
 public:
  struct Place {
    size_t stack = SIZE_MAX;
    int64_t index = 0;
  };

  explicit Stacks(size_t values) : places_(values) {}

  size_t add(const ops::HloValue& stack) {
    stacks_.push_back(stack);
    return stacks_.size() - 1;
  }
  void put(ir::ValueId value, Place place) { places_[value.index] = place; }
  const Place& place(ir::ValueId value) const { return places_[value.index]; }
  bool holds(ir::ValueId value) const { return places_[value.index].stack != SIZE_MAX; }
  const ops::HloValue& stack(size_t index) const { return stacks_[index]; }

  /// The stack that holds these values at start, start + step, ..; step is 1 or -1.
  struct Line {
    size_t stack = 0;
    int64_t start = 0, step = 1;
  };
  std::optional<Line> line(const std::vector<ir::ValueId>& values) const {
    if (!std::ranges::all_of(values, [&](ir::ValueId value) { return holds(value); })) return std::nullopt;
    const Place& first = place(values[0]);
    const Line line{first.stack, first.index, place(values[1]).index > first.index ? 1 : -1};
    for (size_t i = 0; i < values.size(); ++i)
      if (place(values[i]).stack != line.stack ||
          place(values[i]).index != line.start + line.step * static_cast<int64_t>(i))
        return std::nullopt;
    return line;
  }

 private:
  std::vector<ops::HloValue> stacks_;
  std::vector<Place> places_;  // by value of the graph
};

class FunctionValues {
 public:
  /// Inputs get the names %arg0, %arg1, .. by slot.
  explicit FunctionValues(const FunctionRequest& request);

  const std::vector<ops::HloValue>& arguments() const { return arguments_; }

  Stacks& stacks() { return stacks_; }
  const Stacks& stacks() const { return stacks_; }

  /// A value outside of loops; one in a stack is taken out of it once.
  const ops::HloValue& at_hand(ops::HloWriter& writer, ir::ValueId value);
  void set(ir::ValueId value, const ops::HloValue& name) { names_[value.index] = name; }
  /// By index of the value; empty names where it is not at hand.
  std::vector<ops::HloValue>& names() { return names_; }
  /// Values stacked in this order: a stack as it is, or a new one.
  ops::HloValue stack_of(ops::HloWriter& writer, const std::vector<ir::ValueId>& values);
  /// What leaves by a slot.
  ops::HloValue result(ops::HloWriter& writer, const Slot& slot);

  /// Pieces, in order.
  const std::vector<size_t>& readers(ir::ValueId value) const { return readers_[value.index]; }
  bool is_result(ir::ValueId value) const { return results_.contains(value.index); }
  /// The state whose place a result takes.
  std::optional<ir::ValueId> replaced_by(ir::ValueId value) const;

 private:
  const FunctionRequest& request_;
  std::vector<ops::HloValue> arguments_;
  Stacks stacks_;
  std::vector<ops::HloValue> names_;
  std::vector<std::vector<size_t>> readers_;  // by value
  std::unordered_map<std::string, const ir::Output*> outputs_;
  std::unordered_set<uint32_t> results_;
  std::unordered_map<uint32_t, ir::ValueId> replaces_;
};

}  // namespace megacpp::emit
