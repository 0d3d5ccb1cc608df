// SPDX-License-Identifier: Apache-2.0
// What a block family must provide: its parameters, and the graph of its mixer. The model puts the pre-norm and the
// residual around it. To add a family: blocks/<family>.{h,cpp} with one BlockDef, one line in block_list.inc.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/blocks/attention.h"
#include "megacpp/blocks/feed_forward.h"
#include "megacpp/blocks/mamba.h"
#include "megacpp/blocks/parallel.h"
#include "megacpp/blocks/parameter.h"
#include "megacpp/blocks/recurrent.h"
#include "megacpp/ops/builder.h"

namespace megacpp::blocks {

using ir::ValueId;

/// Sizes a family takes from the model around it.
struct Dims {
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t hidden = 0;
  double norm_eps = 1e-5;
  double init_std = 0.02;    // of projections into a block
  double output_std = 0.02;  // of projections back to the residual stream, smaller in deep models
  ir::DType compute = ir::DType::f32;
};

/// Every family's configuration; a block reads its own.
struct Configs {
  Attention attention;
  FeedForward feed_forward;
  Mamba mamba;
  Recurrent recurrent;
};

/// What one E block says about its routing; the model turns it into losses and metrics.
struct RouterStats {
  std::string block;        // "block03"
  ValueId counts;           // f32[experts]: requests per expert before dropping
  ValueId probability_sum;  // f32[experts]: router probability summed over tokens
  ValueId square_lse_mean;  // f32[]: mean over tokens of logsumexp(logits)^2
  ValueId dropped;          // f32[]: requests beyond capacity
  ValueId logits;           // f32[batch, sequence, experts]
};

/// Where a block gets its values and leaves its side results while its graph is built.
struct BuildContext {
  ops::Builder& builder;
  const Dims& dims;
  const Configs& configs;
  const Parallel& parallel;
  std::string block;                                    // "block03"
  const std::map<std::string, ValueId>& weights;        // this block's parameters by short name ("wq"), f32
  std::optional<ValueId> rope_cos = {}, rope_sin = {};  // f32[sequence, head_dim / 2]
  std::optional<ValueId> segments = {};                 // i32[batch, sequence], for document masks
  std::optional<ValueId> positions = {};                // i32[sequence], where tokens are not stored in time order
  std::vector<RouterStats>* routers = nullptr;

  /// A parameter in the compute dtype, or as stored.
  ValueId weight(const std::string& name) const { return builder.convert(master(name), dims.compute); }
  ValueId master(const std::string& name) const { return weights.at(name); }

  /// Where the spread of a value changes: from lying along `from` to lying along `to`. Its gradient goes the other way.
  /// No node when both are the same.
  ValueId reshard(ValueId x, const std::vector<Dim>& from, const std::vector<Dim>& to) const;
  /// Into and out of a mixer: [batch, stream, hidden] <-> [batch, sequence, hidden]. Partial sums end at leave().
  ValueId enter(ValueId x) const;
  ValueId leave(ValueId y) const;
};

struct BlockDef {
  char letter;
  std::string_view name;
  /// Parameters of one block, with short names; the block's own norm is the model's.
  std::function<std::vector<Parameter>(const Dims&, const Configs&)> parameters;
  /// x[batch, sequence, hidden] (normed, compute dtype) -> the same shape, to be added to the residual.
  std::function<ValueId(const BuildContext&, ValueId x)> build;
};

const std::vector<BlockDef>& all_blocks();
/// Letters come validated from the recipe: an unknown one is our bug.
const BlockDef& block_def(char letter);

/// x[.., in] times a parameter [in, out].
ValueId project(const BuildContext& context, ValueId x, const std::string& weight);

}  // namespace megacpp::blocks
