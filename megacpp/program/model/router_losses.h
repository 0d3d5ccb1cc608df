// SPDX-License-Identifier: Apache-2.0
// The losses of blocks that route tokens to experts, and their metrics: aux (balance) and dropped. Every block adds its
// statistics to sums of its letter where it is, so that between two blocks only these few numbers pass. Each block
// counts alike: cutting a letter in two of the same settings changes no loss, unless its balance is over the model.
#pragma once

#include <map>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::model {

class RouterLosses {
 public:
  /// `tokens` of a micro-step. The builder outlives this.
  RouterLosses(ops::Builder& builder, double tokens) : builder_(builder), tokens_(tokens) {}

  /// Before the first block: sums of zeros for a letter, if its blocks route.
  void start(char letter, const blocks::Router& router);
  void add(char letter, const blocks::RouterStats& stats);
  /// After the last one: outputs aux and dropped, and what is added to the loss.
  ir::ValueId total(ir::Graph& graph);

 private:
  struct Sums {
    blocks::Router router;
    double blocks = 0;                            // that have been added
    ir::ValueId counts = {}, probabilities = {};  // f32[experts], where balance is over the model
    ir::ValueId balance = {}, z = {};             // f32[]
  };

  ir::ValueId balance(int64_t experts, ir::ValueId counts, ir::ValueId probabilities, double divisor) const;
  ir::ValueId aux_of(const Sums& sums, double all_blocks) const;

  ops::Builder& builder_;
  double tokens_;
  std::map<char, Sums> sums_;
  ir::ValueId dropped_ = {};  // f32[], of all letters
};

}  // namespace megacpp::model
