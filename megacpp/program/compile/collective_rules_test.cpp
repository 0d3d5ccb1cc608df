// SPDX-License-Identifier: Apache-2.0
// One row of the table at a time, each where the rows before it do not apply. That the advice removes what it says from
// a compiled program, collective_report_test.cpp shows.
#include "megacpp/program/compile/collective_rules.h"

#include <gtest/gtest.h>

namespace megacpp::compile {
namespace {

using Moves = ops::Transfer::Kind;
using Changes = std::vector<std::string>;

struct Row {
  CollectiveFacts facts;
  const char* purpose;
  Changes changes;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"data"}, .scope = "loss", .is_scalar = true},
       "the loss",
       {}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .phase = Phase::update, .axes = {"data"}, .scope = "update.norm"},
       "the gradient norm",
       {}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"data"}, .scope = "block00.E", .is_scalar = true},
       "single numbers",
       {}},
      {{.kind = "send", .moves = Moves::send, .axes = {"stage"}, .is_scalar = true},
       "activations between stages",
       {"layout.pipeline_parallel=1"}},
      {{.kind = "exchange_sum", .moves = Moves::pair_sum, .axes = {"stage"}},
       "gradients of a weight that two stages hold",
       {"layout.pipeline_parallel=1"}},
      {{.kind = "all_gather", .moves = Moves::gather, .phase = Phase::update, .axes = {"data"}, .of_matrices = true},
       "whole matrices for the optimizer",
       {"layout.zero=0"}},
      {{.kind = "all_gather",
        .moves = Moves::gather,
        .phase = Phase::update,
        .axes = {"data", "model"},
        .of_matrices = true},
       "whole matrices for the optimizer",
       {"layout.data_parallel=1", "layout.tensor_parallel=1"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"model"}, .of_gradient = true, .sharing_parts = 2},
       "gradients of weights that several chips share",
       {"layout.tensor_parallel=2"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"model"}, .of_gradient = true},
       "gradients of weights that see part of the tokens",
       {"layout.sequence_parallel=false"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .phase = Phase::update, .axes = {"model"}},
       "gradients of weights that see part of the tokens",
       {"layout.sequence_parallel=false"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .phase = Phase::update, .axes = {"data", "context"}},
       "gradients, once per step",
       {"layout.data_parallel=1", "layout.context_parallel=1"}},
      {{.kind = "all_reduce",
        .moves = Moves::reduce,
        .phase = Phase::backward,
        .axes = {"data"},
        .of_gradient = true,
        .is_once = true},
       "gradients, once per step",
       {"layout.data_parallel=1"}},
      {{.kind = "reduce_scatter",
        .moves = Moves::reduce,
        .phase = Phase::backward,
        .axes = {"data"},
        .of_gradient = true},
       "gradients, in every micro-step",
       {"layout.zero=1"}},
      {{.kind = "all_gather", .moves = Moves::gather, .phase = Phase::update, .axes = {"data"}},
       "updated weights",
       {"layout.zero=0"}},
      {{.kind = "all_gather", .moves = Moves::gather, .axes = {"data"}, .requested = true, .of_weight = true},
       "weights, where they are used",
       {"layout.zero=2"}},
      {{.kind = "all_gather",
        .moves = Moves::gather,
        .phase = Phase::backward,
        .axes = {"data"},
        .requested = true,
        .of_weight = true},
       "weights, again in the backward pass",
       {"layout.reshard_after_forward=false"}},
      {{.kind = "all_gather", .moves = Moves::gather, .axes = {"model"}, .of_weight = true},
       "weights, whole where tokens are split",
       {"layout.sequence_parallel=false"}},
      {{.kind = "all_gather",
        .moves = Moves::gather,
        .phase = Phase::backward,
        .axes = {"data"},
        .scope = "embed",
        .is_once = true},
       "tokens, for the rows of the embedding's gradient that a chip stores",
       {"layout.zero=0"}},
      {{.kind = "all_gather", .moves = Moves::gather, .phase = Phase::backward, .axes = {"data"}, .scope = "embed"},
       "tokens, for the rows of the embedding's gradient that a chip stores",
       {"layout.zero=1"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"model"}, .scope = "loss"},
       "the softmax over a split vocabulary",
       {"layout.tensor_parallel=1"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"model"}, .scope = "embed"},
       "rows of a split embedding",
       {"layout.tensor_parallel=1"}},
      {{.kind = "all_reduce", .moves = Moves::reduce, .axes = {"model"}, .scope = "block00.A"},
       "sums of split products",
       {"layout.tensor_parallel=1"}},
      {{.kind = "all_gather", .moves = Moves::gather, .axes = {"model"}, .scope = "block00.A"},
       "tokens between mixers and split products",
       {"layout.tensor_parallel=1"}},
      {{.kind = "all_gather", .moves = Moves::gather, .axes = {"context", "model"}, .scope = "block00.A"},
       "tensors whose reader needs them whole",
       {"layout.context_parallel=1", "layout.tensor_parallel=1"}},
  };
  return all;
}

/// A layout in which no change that a rule advises is in effect.
plan::ResolvedLayout split_everywhere(int64_t zero = 3) {
  const recipe::Model model{.pattern = "A", .depth = 1};
  return {model,
          {.data_parallel = 2,
           .expert_parallel = 2,
           .context_parallel = 2,
           .tensor_parallel = 4,
           .pipeline_parallel = 2,
           .zero = zero}};
}

TEST(CollectiveRulesTest, EveryRowAnswersForItsFacts) {
  for (const Row& row : rows()) {
    const Removal removal = removal_of(row.facts, split_everywhere());
    EXPECT_EQ(removal.purpose, row.purpose);
    EXPECT_EQ(removal.changes, row.changes) << row.purpose;
  }
}

TEST(CollectiveRulesTest, AChangeThatIsInEffectIsNotAdvised) {
  const CollectiveFacts gathered{
      .kind = "all_gather", .moves = Moves::gather, .phase = Phase::update, .axes = {"data"}, .of_matrices = true};
  EXPECT_EQ(removal_of(gathered, split_everywhere(0)).changes, Changes{"layout.data_parallel=1"}) << "the next row";
}

TEST(CollectiveRulesTest, AFamilySaysWhyBeforeTheLastRowsDo) {
  const blocks::BlockDef& family = blocks::block_def('E');
  ASSERT_FALSE(family.advice.empty());
  const CollectiveFacts tokens{
      .kind = "all_to_all", .moves = Moves::exchange, .axes = {"expert"}, .scope = "block01.E", .family = &family};
  EXPECT_NE(removal_of(tokens, split_everywhere()).purpose, "tensors whose reader needs them whole");
  CollectiveFacts elsewhere = tokens;
  elsewhere.family = nullptr;
  EXPECT_EQ(removal_of(elsewhere, split_everywhere()).purpose, "tensors whose reader needs them whole");
}

TEST(CollectiveRulesTest, PhasesHaveNames) {
  EXPECT_EQ(phase_name(Phase::forward), "forward");
  EXPECT_EQ(phase_name(Phase::backward), "backward");
  EXPECT_EQ(phase_name(Phase::update), "update");
}

}  // namespace
}  // namespace megacpp::compile
