// SPDX-License-Identifier: Apache-2.0
// Builds the forward graph of a pattern string: embedding, residual blocks with their norms, final norm, head, losses.
// Every parameter, its initial distribution and its scope are fixed here; from there on nothing reads the recipe's
// model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::model {

/// The batch a program is built for.
struct Batch {
  int64_t sequences = 0;
  int64_t length = 0;
  ir::DType compute = ir::DType::f32;
};

/// How the tokens of one micro-step chose among the experts of one block.
struct ExpertLoad {
  std::string block;    // "block03"
  std::string scope;    // "block03.E"
  ir::ValueId counts;   // f32[experts]: requests, before any is dropped
  ir::ValueId dropped;  // f32[experts]: those of them beyond capacity
  int64_t experts = 0;
  double bias_rate = 0;   // 0: they steer nothing
  std::string bias = {};  // the parameter they steer

  bool steers_bias() const { return bias_rate > 0; }
  /// The outputs of a training program that hold them.
  std::string counts_name() const { return "expert_load." + block; }
  std::string dropped_name() const { return "expert_dropped." + block; }
};

struct ForwardModel {
  ir::Graph graph;
  std::vector<blocks::Parameter> parameters;  // in order of appearance; each is an input of that name
  ir::ValueId loss;                           // f32[]: what is minimised
  std::vector<ExpertLoad> expert_loads;
  std::vector<blocks::StatePort> state = {};  // of a decoding graph, under the names of its inputs
};

/// Inputs: parameters (f32, role weight), batch.ids and batch.labels (i32[sequences, length]; a label below 0 is
/// masked), batch.segments and batch.document_positions where blocks have document masks, batch.positions (i32[length])
/// where sequences are not stored in time order. Outputs: loss, ce, and aux, z, dropped where there are experts;
/// logits and router logits when `keep_logits` is set.
/// The plan says how everything is spread: shardings stand on the inputs, reshard nodes where the spread changes.
ForwardModel build_forward(const recipe::Model& model, const Batch& batch, const plan::Plan& plan = {},
                           bool keep_logits = false);

/// What a decoding program is built for.
struct DecodingShape {
  int64_t sequences = 1;
  int64_t length = 0;       // tokens of a sequence at most
  int64_t tokens = 1;       // of each sequence that a step of this program reads
  int64_t step_tokens = 1;  // the same of the program with the longest step among those that share the state
  ir::DType compute = ir::DType::f32;
};

/// The prefix of the inputs that say which token each slot of a cache holds: "batch.slots.128" is i32[128].
inline constexpr std::string_view kSlotsPrefix = "batch.slots.";

/// The next tokens of each sequence on one chip. Inputs: parameters, batch.ids (i32[sequences, tokens]),
/// batch.positions (i32[tokens]: how many tokens came before each), batch.slots.<size> (see blocks::Decoding::slots)
/// and the state of every block, which outputs of the same names replace. Output: logits (f32[sequences, tokens,
/// vocab]). Nothing is dropped by experts. E1505 for experts that choose tokens: they look ahead.
ForwardModel build_decoding(const recipe::Model& model, const DecodingShape& shape);

/// All parameters of the model, without building a graph.
std::vector<blocks::Parameter> parameters_of(const recipe::Model& model);

/// The graph of one bare mixer: input x, output y, no norm, no residual. For comparing a family with its reference.
ForwardModel build_mixer(const recipe::Model& model, char letter, const Batch& batch, const plan::Plan& plan = {});

}  // namespace megacpp::model
