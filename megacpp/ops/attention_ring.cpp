// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/attention_ring.h"

#include <algorithm>
#include <map>
#include <optional>

#include "megacpp/ops/attention_decompose.h"
#include "megacpp/ops/attention_mask.h"

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
  Sharding positions() const { return {{ring}}; }
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

// What travels: k, v, their segments where there are documents, and their positions.
using Run = std::vector<ValueId>;

class Ring {
 public:
  Ring(PartitionContext& context, const RingLayout& layout, size_t first_token_operand)
      : context_(context),
        layout_(layout),
        tokens_(TokenOperands::behind(first_token_operand, context.view().attrs)),
        attrs_(context.view().attrs) {
    attrs_.set("placed", int64_t{1});
    if (tokens_.documents) query_segments_ = context_.local(tokens_.query_segments(), layout_.segments());
    query_positions_ = tokens_.placed ? context_.local(tokens_.query_positions(), layout_.positions()) : count_tokens();
  }

  int64_t chips() const { return context_.mesh().size(layout_.ring); }

  Run own_run() {
    Run run = {context_.local(1, layout_.keys()), context_.local(2, layout_.keys())};
    if (tokens_.documents) run.push_back(context_.local(tokens_.key_segments(), layout_.segments()));
    run.push_back(tokens_.placed ? context_.local(tokens_.key_positions(), layout_.positions()) : query_positions_);
    return run;
  }

  /// Every chip hands its values to the next one, those of a dtype together.
  std::vector<ValueId> pass_on(const std::vector<ValueId>& values) {
    Builder& b = context_.builder();
    std::map<DType, std::vector<size_t>> by_dtype;
    for (size_t i = 0; i < values.size(); ++i) by_dtype[b.type(values[i]).dtype].push_back(i);
    std::vector<ValueId> passed(values.size());
    for (const auto& [_, places] : by_dtype) {
      std::vector<ValueId> given;
      for (const size_t i : places) given.push_back(values[i]);
      const std::vector<ValueId> taken =
          b.node("permute", given,
                 {{"axes", axes()},
                  {"parts", chips()},
                  {"shift", int64_t{1}},
                  {"cause", std::string("attention over a split sequence: each run to the next chip")}});
      for (size_t i = 0; i < places.size(); ++i) passed[places[i]] = taken[i];
    }
    return passed;
  }

  /// `op` of q, the run and `others` on this chip.
  std::vector<ValueId> node(std::string_view op, ValueId q, const Run& run, const std::vector<ValueId>& others = {}) {
    std::vector<ValueId> operands = {q, run[0], run[1]};
    operands.insert(operands.end(), others.begin(), others.end());
    if (tokens_.documents) operands.insert(operands.end(), {query_segments_, run[2]});
    operands.insert(operands.end(), {query_positions_, run.back()});
    return context_.builder().node(op, operands, attrs_);
  }

 private:
  std::string axes() const { return ir::to_string(layout_.ring, context_.mesh()); }

  // Positions of the chip's tokens where the whole sequence stands in order.
  ValueId count_tokens() {
    Builder& b = context_.builder();
    const int64_t size = context_.view().operands[0].dim(1) / chips();
    const ValueId index = b.one("shard_index", {}, {{"axes", axes()}, {"parts", chips()}});
    const ValueId first = b.scale(index, static_cast<double>(size));
    return b.add(b.iota({size}, 0), first);
  }

  PartitionContext& context_;
  const RingLayout& layout_;
  TokenOperands tokens_;
  ir::Attrs attrs_;
  ValueId query_segments_ = {};
  ValueId query_positions_ = {};
};

// Attention to some of the keys.
struct Part {
  ValueId out;  // f32[b,s,H,d]
  ValueId lse;  // f32[b,s,H]: by token, as `out` is
};

Part attend(Builder& b, Ring& ring, ValueId q, const Run& run) {
  const std::vector<ValueId> results = ring.node("attention", q, run);
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

}  // namespace

std::vector<PartitionedResult> partition_attention(PartitionContext& context) {
  const std::optional<RingLayout> layout = layout_of(context);
  if (!layout) return {};
  Builder& b = context.builder();
  Ring ring(context, *layout, kAttentionOperands);
  const ValueId q = context.local(0, layout->queries());
  Run run = ring.own_run();
  Part seen = attend(b, ring, q, run);
  for (int64_t pass = 1; pass < ring.chips(); ++pass) {
    run = ring.pass_on(run);
    seen = merge(b, seen, attend(b, ring, q, run));
  }
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
  const auto go_back = [&](const Run& run) {  // dq, dk, dv in f32
    std::vector<ValueId> gradients = ring.node("attention_grad", q, run, {out, lse, dout});
    for (ValueId& gradient : gradients) gradient = b.convert(gradient, DType::f32);
    return gradients;
  };
  Run run = ring.own_run();
  const DType dtype = b.type(run[0]).dtype;
  Run next = ring.pass_on(run);  // ahead of the gradients: it can travel while they are made
  std::vector<ValueId> sums = go_back(run);
  for (int64_t pass = 1; pass < ring.chips(); ++pass) {
    run = next;
    if (pass + 1 < ring.chips()) next = ring.pass_on(run);
    const std::vector<ValueId> passed = ring.pass_on({sums[1], sums[2]});
    std::copy(passed.begin(), passed.end(), sums.begin() + 1);
    const std::vector<ValueId> gradients = go_back(run);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = b.add(sums[i], gradients[i]);
  }
  const std::vector<ValueId> home = ring.pass_on({sums[1], sums[2]});
  return {{b.convert(sums[0], dtype), layout->queries()},
          {b.convert(home[0], dtype), layout->key_gradients()},
          {b.convert(home[1], dtype), layout->key_gradients()}};
}

}  // namespace megacpp::ops
