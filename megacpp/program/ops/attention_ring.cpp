// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/attention_ring.h"

#include <algorithm>
#include <optional>

#include "megacpp/program/ops/attention_decompose.h"
#include "megacpp/program/ops/attention_mask.h"

namespace megacpp::ops {
namespace {

using ir::Axes;
using ir::DType;
using ir::Mesh;
using ir::Sharding;

struct RingLayout {
  Axes batch;
  Axes ring;        // along the sequence
  Axes kv_heads;    // the first axes of the query heads too
  Axes group = {};  // the others of the query heads, which split those that share a key head

  Axes heads() const {
    Axes axes = kv_heads;
    axes.insert(axes.end(), group.begin(), group.end());
    return axes;
  }
  Sharding queries() const { return {{batch, ring, heads(), {}}}; }
  Sharding lse() const { return {{batch, heads(), ring}}; }
  Sharding keys() const { return {{batch, ring, kv_heads, {}}}; }
  Sharding segments() const { return {{batch, ring}}; }
  Sharding whole_segments() const { return {{batch, {}}}; }
  /// Chips that share a key head sum their parts of its gradient.
  Sharding key_gradients() const {
    Sharding sharding = keys();
    sharding.unreduced = group;
    std::sort(sharding.unreduced.begin(), sharding.unreduced.end());
    return sharding;
  }
};

// Query heads stay split as they are as far as each chip then holds the key heads that they read, and no others.
void split_heads(const Axes& heads, const Axes& kv_heads, const AttentionDims& z, const Mesh& mesh,
                 RingLayout& layout) {
  size_t at = 0;
  const auto take = [&](Axes& into, int64_t size) {
    into.push_back(heads[at]);
    if (size % mesh.size(into) == 0) return true;
    into.pop_back();
    return false;
  };
  while (at < heads.size() && at < kv_heads.size() && heads[at] == kv_heads[at] && take(layout.kv_heads, z.kv_heads))
    ++at;
  if (mesh.size(layout.kv_heads) != z.kv_heads) return;
  while (at < heads.size() && take(layout.group, z.group)) ++at;
}

std::optional<RingLayout> layout_of(const PartitionContext& context) {
  const Mesh& mesh = context.mesh();
  const Sharding& q = context.sharding(0);
  const Axes& ring = q.dims[1];
  if (mesh.size(ring) == 1) return std::nullopt;
  if (context.sharding(1).dims[1] != ring || context.sharding(2).dims[1] != ring) return std::nullopt;
  const AttentionDims z(context.view().operands[0], context.view().operands[1]);
  if (!ir::divides(z.s, ring, mesh) || !ir::divides(z.t, ring, mesh)) return std::nullopt;
  RingLayout layout{.batch = q.dims[0], .ring = ring, .kv_heads = {}};
  split_heads(q.dims[2], context.sharding(1).dims[2], z, mesh, layout);
  return layout;
}

// What travels: k and v.
using Run = std::vector<ValueId>;

class Ring {
 public:
  Ring(PartitionContext& context, const RingLayout& layout, size_t first_token_operand)
      : context_(context),
        layout_(layout),
        tokens_(TokenOperands::behind(first_token_operand, context.view().attrs)),
        attrs_(context.view().attrs) {
    attrs_.set("placed", int64_t{1});
    attrs_.erase("sinks");  // met behind the last run
    if (tokens_.documents) {
      query_segments_ = context_.local(tokens_.query_segments(), layout_.segments());
      key_segments_ = context_.local(tokens_.key_segments(), layout_.whole_segments());
    }
    query_positions_ = part(whole_positions(tokens_.query_positions(), 0), 0, 0);
    key_positions_ = whole_positions(tokens_.key_positions(), 1);
    // For costs alone: what a node sees is known where it runs.
    attrs_.set("sequence", tokens_in(1));
    attrs_.set("runs", passes() + 1);
  }

  /// How often runs must move on until every query has met all keys it sees: all around where tokens stand in an order
  /// that only the positions tell, else no further than the mask reaches.
  int64_t passes() const {
    int64_t pass = chips() - 1;
    while (pass > 0 && !tokens_.placed && !is_seen(pass)) --pass;
    return pass;
  }

  /// Scores of the sinks of the chip's heads, where there are sinks: f32[H]
  std::optional<ValueId> sinks() {
    if (!tokens_.sinks) return std::nullopt;
    return context_.local(tokens_.sink_scores(), {{layout_.heads()}});
  }

  Run own_run() { return {context_.local(1, layout_.keys()), context_.local(2, layout_.keys())}; }

  /// Every chip hands its values to the one `shift` places further.
  std::vector<ValueId> pass_on(const std::vector<ValueId>& values, int64_t shift = 1) {
    return context_.builder().node(
        "permute", values,
        {{"axes", axes()},
         {"parts", chips()},
         {"shift", shift},
         {"cause", std::string("attention over a split sequence: each run to the next chip")}});
  }

  /// `op` on this chip of q, the run that has moved on `pass` times, and `others`.
  std::vector<ValueId> node(std::string_view op, ValueId q, const Run& run, int64_t pass,
                            const std::vector<ValueId>& others = {}) {
    std::vector<ValueId> operands = {q, run[0], run[1]};
    operands.insert(operands.end(), others.begin(), others.end());
    if (tokens_.documents) operands.insert(operands.end(), {query_segments_, part(key_segments_, 1, pass)});
    operands.insert(operands.end(), {query_positions_, part(key_positions_, 0, pass)});
    ir::Attrs attrs = attrs_;
    if (!tokens_.placed) attrs.set("apart", pass);  // for costs, as above
    return context_.builder().node(op, operands, attrs);
  }

 private:
  std::string axes() const { return ir::to_string(layout_.ring, context_.mesh()); }
  int64_t chips() const { return context_.mesh().size(layout_.ring); }

  // What describes tokens is replicated, so that it need not be sent: the part of the chip `pass` places
  // before this one.
  ValueId part(ValueId whole, int64_t dim, int64_t pass) {
    return context_.builder().one("shard_slice", {whole},
                                  {{"axes", axes()}, {"parts", chips()}, {"dim", dim}, {"shift", pass}});
  }

  // Of the tokens of operand `of`: i32[s]
  ValueId whole_positions(size_t operand, size_t of) {
    if (tokens_.placed) return context_.local(operand, Sharding::replicated(1));
    return context_.builder().iota({tokens_in(of)}, 0);
  }

  int64_t tokens_in(size_t operand) const { return context_.view().operands[operand].dim(1); }

  // Whether tokens that stand in order see any of the chip `pass` places before theirs.
  bool is_seen(int64_t pass) const {
    const AttentionMask mask = AttentionMask::from(attrs_);
    const auto run_of = [this](int64_t chip, size_t operand) {
      const int64_t size = tokens_in(operand) / chips();
      return PositionRange{chip * size, (chip + 1) * size - 1};
    };
    for (int64_t chip = 0; chip < chips(); ++chip)
      if (mask.cover(run_of(chip, 0), run_of((chip - pass + chips()) % chips(), 1)) != Cover::none) return true;
    return false;
  }

  PartitionContext& context_;
  const RingLayout& layout_;
  TokenOperands tokens_;
  ir::Attrs attrs_;
  ValueId query_segments_ = {}, query_positions_ = {};  // of the chip's own
  ValueId key_segments_ = {}, key_positions_ = {};      // of all
};

// Attention to some of the keys.
struct Part {
  ValueId out;  // f32[b,s,H,d]
  ValueId lse;  // f32[b,s,H]: by token, as `out` is
};

Part attend(Builder& b, Ring& ring, ValueId q, const Run& run, int64_t pass) {
  const std::vector<ValueId> results = ring.node("attention", q, run, pass);
  return {b.convert(results[0], DType::f32), b.transpose(results[1], {0, 2, 1})};
}

// Rows that saw nothing yet have a weight of zero, or meet others that saw nothing: then zeros are averaged.
Part merge(Builder& b, const Part& left, const Part& right) {
  const ValueId highest = b.max(left.lse, right.lse);
  const ValueId of_left = b.exp(b.sub(left.lse, highest));
  const ValueId of_right = b.exp(b.sub(right.lse, highest));
  const ValueId sum = b.add(of_left, of_right);
  const auto weigh = [&](ValueId out, ValueId weight) {
    return b.mul(out, b.broadcast(b.div(weight, sum), b.shape(out), {0, 1, 2}));
  };
  const ValueId out = weigh(left.out, of_left);
  return {b.add(out, weigh(right.out, of_right)), b.add(highest, b.log(sum))};
}

// A sink takes weight and has a value of zero.
Part with_sinks(Builder& b, const Part& seen, ValueId sinks) {
  const ValueId score = b.broadcast(sinks, b.shape(seen.lse), {2});
  const ValueId highest = b.max(seen.lse, score);
  const ValueId of_keys = b.exp(b.sub(seen.lse, highest));
  const ValueId sum = b.add(of_keys, b.exp(b.sub(score, highest)));
  const ValueId kept = b.broadcast(b.div(of_keys, sum), b.shape(seen.out), {0, 1, 2});
  const ValueId out = b.mul(seen.out, kept);
  return {out, b.add(highest, b.log(sum))};
}

}  // namespace

std::vector<PartitionedResult> partition_attention(PartitionContext& context) {
  const std::optional<RingLayout> layout = layout_of(context);
  if (!layout) return {};
  Builder& b = context.builder();
  Ring ring(context, *layout, kAttentionOperands);
  const ValueId q = context.local(0, layout->queries());
  Run run = ring.own_run();
  Part seen = attend(b, ring, q, run, 0);
  const int64_t passes = ring.passes();
  for (int64_t pass = 1; pass <= passes; ++pass) {
    run = ring.pass_on(run);
    seen = merge(b, seen, attend(b, ring, q, run, pass));
  }
  if (const std::optional<ValueId> sinks = ring.sinks()) seen = with_sinks(b, seen, *sinks);
  return {{b.convert(seen.out, b.type(q).dtype), layout->queries()}, {b.transpose(seen.lse, {0, 2, 1}), layout->lse()}};
}

// The weights are exp(score - lse) with the lse over all keys, so each run's part of a gradient is whole in itself.
std::vector<PartitionedResult> partition_attention_grad(PartitionContext& context) {
  const std::optional<RingLayout> layout = layout_of(context);
  if (!layout) return {};
  Builder& b = context.builder();
  Ring ring(context, *layout, kAttentionGradOperands);
  const ValueId q = context.local(0, layout->queries());
  const ValueId out = context.local(3, layout->queries());
  const ValueId lse = context.local(4, layout->lse());
  const ValueId dout = context.local(5, layout->queries());
  const auto go_back = [&](const Run& run, int64_t pass) {  // dq, dk, dv in f32
    std::vector<ValueId> gradients = ring.node("attention_grad", q, run, pass, {out, lse, dout});
    for (ValueId& gradient : gradients) gradient = b.convert(gradient, DType::f32);
    return gradients;
  };
  Run run = ring.own_run();
  const DType dtype = b.type(run[0]).dtype;
  const int64_t passes = ring.passes();
  // Ahead of the gradients: it can travel while they are made.
  Run next = passes > 0 ? ring.pass_on(run) : Run{};
  std::vector<ValueId> sums = go_back(run, 0);
  const auto move_key_sums = [&](int64_t shift) {
    const std::vector<ValueId> moved = ring.pass_on({sums[1], sums[2]}, shift);
    std::copy(moved.begin(), moved.end(), sums.begin() + 1);
  };
  for (int64_t pass = 1; pass <= passes; ++pass) {
    run = next;
    if (pass < passes) next = ring.pass_on(run);
    move_key_sums(1);
    const std::vector<ValueId> gradients = go_back(run, pass);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = b.add(sums[i], gradients[i]);
  }
  if (passes > 0) move_key_sums(-passes);
  return {{b.convert(sums[0], dtype), layout->queries()},
          {b.convert(sums[1], dtype), layout->key_gradients()},
          {b.convert(sums[2], dtype), layout->key_gradients()}};
}

}  // namespace megacpp::ops
