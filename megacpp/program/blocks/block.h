// SPDX-License-Identifier: Apache-2.0
// The record of a block family: all that is known of it. Its letter and settings with their documentation, how they fit
// together, its parameters, the graph of its mixer, what a layout may split, what a token-by-token run keeps. The model
// puts norms and the residual around the mixer. To add a family: blocks/<family>.cpp with one BlockDef, one line
// in block_list.inc.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/schema/key.h"
#include "megacpp/program/blocks/check.h"
#include "megacpp/program/blocks/config.h"
#include "megacpp/program/blocks/parallel.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/blocks/traits.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::blocks {

using ir::ValueId;

/// Sizes a family takes from the model around it.
struct Dims {
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t hidden = 0;
  double norm_eps = 1e-5;
  bool norm_plus_one = false;  // norms scale by 1 + gain
  double init_std = 0.02;      // of projections into a block
  double output_std = 0.02;    // of projections back to the residual stream, smaller in deep models
  ir::DType compute = ir::DType::f32;
  int64_t step_tokens = 1;  // of each sequence that a step of decoding reads at most

  /// With which the gains of norms scale by one.
  Init first_gain() const { return norm_plus_one ? Init::zeros() : Init::ones(); }
};

/// What one block with experts says about its routing; the model turns it into losses and metrics.
struct RouterStats {
  std::string block;        // "block03"
  ValueId counts;           // f32[experts]: requests per expert before dropping
  ValueId probability_sum;  // f32[experts]: router probability summed over tokens
  ValueId square_lse_mean;  // f32[]: mean over tokens of logsumexp(logits)^2
  ValueId dropped;          // f32[experts]: those of them beyond capacity
  ValueId logits;           // f32[batch, sequence, experts]
};

/// The next tokens of each sequence, one or a few: what the tokens before them left for a block, and what the block
/// leaves.
struct Decoding {
  std::map<std::string, ValueId> state;  // by the name of a StatePort
  std::map<std::string, ValueId> next;   // the same after these tokens; filled while the graph is built
  /// i32[size]: the position of the token that each slot of a cache of this size holds, these tokens included; what is
  /// not yet filled is later than all.
  std::function<ValueId(int64_t size)> slots;
};

/// Where a block gets its values and leaves its side results while its graph is built.
struct BuildContext {
  ops::Builder& builder;
  const Dims& dims;
  const Config& config;                            // of the block's letter
  const Parallel& parallel;                        // of the block's letter
  std::string block;                               // "block03"
  const std::map<std::string, ValueId>& weights;   // this block's parameters by short name ("wq"), f32
  std::map<std::string, ValueId> shared = {};      // by name, what BlockDef::shared made
  std::optional<ValueId> segments = {};            // i32[batch, sequence], for document masks
  std::optional<ValueId> positions = {};           // i32[sequence], where tokens are not stored in time order
  std::optional<ValueId> document_positions = {};  // i32[batch, sequence]: places of tokens in their documents
  double adapter_scale = 0;                        // Lora::scale() where some of the weights have adapters
  std::vector<RouterStats>* routers = nullptr;
  Decoding* decoding = nullptr;  // of the dims.sequence tokens at `positions`; nullptr: whole sequences

  /// A parameter in the compute dtype, or as stored.
  ValueId weight(const std::string& name) const { return builder.convert(master(name), dims.compute); }
  ValueId master(const std::string& name) const { return weights.at(name); }

  /// RMS norm of the last dimension by a gain of the model's kind, without or with one added.
  ValueId norm(ValueId x, const std::string& gain) const;

  /// Where the sharding of a value changes: from that of the dimensions `from` to that of `to`. Its gradient goes the
  /// other way. No node on a single chip.
  ValueId reshard(ValueId x, const std::vector<Dim>& from, const std::vector<Dim>& to) const;
  /// Into and out of a mixer: [batch, stream, hidden] <-> [batch, sequence, hidden]. Partial sums end at leave().
  ValueId enter(ValueId x) const;
  ValueId leave(ValueId y) const;
};

using ConfigKey = schema::Key<Config>;

namespace detail {
template <typename Settings>
ConfigKey of_config(schema::Key<Settings> key) {
  return {static_cast<schema::KeySpec&>(key),
          [member = std::move(key.member)](Config& config) { return member(config.as<Settings>()); }};
}
}  // namespace detail

/// The key of a field of a family's settings: setting<&Attention::heads>("heads", between(1, 64), "Query heads.").
template <auto field>
ConfigKey setting(std::string name, schema::Range range, std::string doc) {
  return detail::of_config(schema::key<field>(std::move(name), std::move(range), std::move(doc)));
}
/// Of a field that is an enum: setting<&FeedForward::scoring>("scoring", "From router logits to scores.").
template <auto field>
ConfigKey setting(std::string name, std::string doc) {
  return detail::of_config(schema::key<field>(std::move(name), std::move(doc)));
}

/// Values that all blocks of a letter read, made once ahead of them.
struct SharedValues {
  std::string_view scope = "";
  std::function<std::map<std::string, ValueId>(const BuildContext& context)> build = {};
};

struct BlockDef {
  char letter;
  std::string_view name;   // of its section in a recipe: "attention"
  std::string_view title;  // as people call it: "Mamba-2"
  Config defaults;
  /// One per setting, by its name in the section. A value is one scalar, so that a letter of a recipe can give it too.
  std::vector<ConfigKey> keys;
  /// How the settings fit together, each being in its range: E1003 or E1005 on the first that does not.
  std::function<void(const ConfigCheck&)> check;
  std::function<Traits(const Config&)> traits;
  /// Parameters of one block, with short names; the block's own norm is the model's.
  std::function<std::vector<Parameter>(const Dims&, const Config&)> parameters;
  /// x[batch, sequence, hidden] (normed, compute dtype) -> the same shape, to be added to the residual. With
  /// BuildContext::decoding the same mixer for the tokens after those that its state remembers.
  std::function<ValueId(const BuildContext&, ValueId x)> build;
  SharedValues shared = {};
  /// What decoding keeps of a block for dims.batch sequences of up to dims.sequence tokens; none: nothing.
  std::function<std::vector<StatePort>(const Dims&, const Config&)> state;
  std::vector<CollectiveAdvice> advice = {};  // the first that applies counts
};

const std::vector<BlockDef>& all_blocks();
/// nullptr for a letter that is no family's.
const BlockDef* find_block(char letter);
/// The same for a letter that is known to be one.
const BlockDef& block_def(char letter);

/// x times a matrix, which is f32 as stored; a family's own way to multiply.
using Product = std::function<ValueId(ValueId x, ValueId matrix)>;

/// x times a parameter by `product`, with its adapters (see lora.h) where it has any. Every product of a block with a
/// matrix goes through here.
ValueId project(const BuildContext& context, ValueId x, const std::string& weight, const Product& product);
/// The same for x[.., in] and a parameter [in, out], in the compute dtype.
ValueId project(const BuildContext& context, ValueId x, const std::string& weight);

/// x[.., out] plus a parameter [out].
ValueId add_bias(const BuildContext& context, ValueId x, const std::string& bias);

/// RMS norm of the last dimension by `gain`, which is f32 as stored.
ValueId rms_norm(ops::Builder& builder, const Dims& dims, ValueId x, ValueId gain);

}  // namespace megacpp::blocks
