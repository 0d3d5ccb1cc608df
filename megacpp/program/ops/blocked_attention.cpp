// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient in the form that compilers loop over. Backends of our own never meet these ops; they would
// be taken apart there as attention is.
#include "megacpp/program/ops/blocked_attention.h"

#include <algorithm>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/ops/attention_block_table.h"
#include "megacpp/program/ops/attention_decompose.h"
#include "megacpp/program/ops/blocked_attention_hlo.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {

OpDef attention_def();
OpDef attention_grad_def();

namespace {

// What a node's loop goes over.
struct LoopSizes {
  AttentionDims z;
  int64_t block;
  AttentionBlockTable table;
  ir::DType dtype;

  LoopSizes(const NodeView& view, int64_t block_size)
      : z(view.operands[0], view.operands[1]),
        block(block_size),
        table(z.s, z.t, block, AttentionMask::from(view.attrs), PlacedRuns::from(view.attrs)),
        dtype(view.operands[0].dtype) {}
  explicit LoopSizes(const NodeView& view) : LoopSizes(view, attention_block(view.attrs)) {}

  int64_t element_bytes() const { return ir::dtype_bytes(dtype); }
  int64_t scores() const { return z.b * z.heads * block * block; }  // of a pair of blocks
  int64_t queries() const { return z.b * block * z.heads * z.d; }   // elements of a block
  int64_t keys() const { return z.b * block * z.kv_heads * z.d; }   // likewise

  // As products leave them: the queries of a key head are rows.
  ir::TensorType scores_in(ir::DType type) const { return {type, {z.b, z.kv_heads, block * z.group, block}}; }
  ir::TensorType query_sums() const { return {ir::DType::f32, {z.b, z.kv_heads, block * z.group, z.d}}; }
  /// Of all keys, those that fill the last block too.
  ir::TensorType key_sums() const { return {ir::DType::f32, {z.b, z.kv_heads, table.key_blocks() * block, z.d}}; }
  ir::TensorType all_queries() const { return {dtype, {z.b, table.query_blocks() * block, z.heads, z.d}}; }
  ir::TensorType all_keys() const { return {dtype, {z.b, table.key_blocks() * block, z.kv_heads, z.d}}; }
  bool fills_queries() const { return z.s % block != 0; }  // the last block, with zeros
  bool fills_keys() const { return z.t % block != 0; }
};

constexpr int64_t kSumBytes = 4;  // f32

/// What a pair of blocks moves: blocks of queries and of keys, in the operands' type and as sums in f32.
struct PairTraffic {
  int64_t queries, keys;         // read from operands or stored into results
  int64_t query_sums, key_sums;  // read and written
};

// A node is taken to move its operands and results once: the first time is left out here. Scores are left out too: the
// rate that attention was measured to reach has them.
Cost cost_of(const LoopSizes& sizes, double flops_per_product, const PairTraffic& traffic) {
  const int64_t pairs = sizes.table.pairs(), element = sizes.element_bytes();
  const int64_t of_pair = (traffic.queries * sizes.queries() + traffic.keys * sizes.keys()) * element +
                          (traffic.query_sums * sizes.queries() + traffic.key_sums * sizes.keys()) * kSumBytes;
  const int64_t once = (traffic.queries * sizes.queries() * sizes.table.query_blocks() +
                        traffic.keys * sizes.keys() * sizes.table.key_blocks()) *
                       element;
  const double scores = static_cast<double>(pairs) * static_cast<double>(sizes.scores());
  return {
      .flops = flops_per_product * scores * static_cast<double>(sizes.z.d),
      .exponentials = scores,
      .bytes = std::max(0.0, static_cast<double>(pairs) * static_cast<double>(of_pair) - static_cast<double>(once))};
}

// Each pair reads q, k, v, stores out, and reads and writes the sums of its queries.
Cost forward_cost(const NodeView& view) {
  return cost_of(LoopSizes(view), 4, {.queries = 2, .keys = 2, .query_sums = 2, .key_sums = 0});
}

// Each pair reads q, k, v and dout, stores dq, and reads and writes the sums of dq, dk and dv.
Cost backward_cost(const NodeView& view) {
  return cost_of(LoopSizes(view), 10, {.queries = 3, .keys = 2, .query_sums = 2, .key_sums = 4});
}

void add(Types& types, size_t count, const ir::TensorType& type) { types.insert(types.end(), count, type); }

// The list of pairs, before and behind its sort; operands and results that are longer by what fills their last block.
Types whole_temporaries(const LoopSizes& sizes, size_t of_queries, size_t of_keys) {
  Types types;
  add(types, 2, {ir::DType::i32, {sizes.table.query_blocks() * sizes.table.key_blocks()}});
  if (sizes.fills_queries()) add(types, of_queries, sizes.all_queries());
  if (sizes.fills_keys()) add(types, of_keys, sizes.all_keys());
  return types;
}

// Scores in f32 and the weights that products read, of one pair; the sums of its queries before and after it.
Types forward_temporaries(const NodeView& view) {
  const LoopSizes sizes(view);
  Types types = whole_temporaries(sizes, 2, 2);
  add(types, 1, sizes.scores_in(ir::DType::f32));
  add(types, 1, sizes.scores_in(sizes.dtype));
  add(types, 2, sizes.query_sums());
  return types;
}

// Scores and their gradient, in f32 and as products read them; sums as forward; and dk and dv of all keys in f32.
Types backward_temporaries(const NodeView& view) {
  const LoopSizes sizes(view);
  Types types = whole_temporaries(sizes, 3, 2);
  add(types, 2, sizes.scores_in(ir::DType::f32));
  add(types, 2, sizes.scores_in(sizes.dtype));
  add(types, 2, sizes.query_sums());
  add(types, 2, sizes.key_sums());
  return types;
}

// ---- Samples: those of attention in blocks, the last one often not full, and masks at random ----

ir::Attrs random_mask(const base::Philox& random) {
  uint64_t drawn = 0;
  const auto draw = [&](int64_t most) {  // 0 .. most
    return static_cast<int64_t>(random.uniform(drawn++) * static_cast<double>(most + 1));
  };
  ir::Attrs mask = {{"scale", 0.5}, {"block", 2 + draw(3)}, {"causal", draw(1)}};
  if (draw(1) == 1) mask.set("window", 1 + draw(8));
  if (draw(2) == 0) return mask;
  mask.set("sparse_block", 1 + draw(5));
  mask.set("sparse_local", draw(2));
  mask.set("sparse_global", draw(2));
  return mask;
}

std::vector<Sample> in_blocks(const std::vector<Sample>& samples) {
  std::vector<Sample> list = samples;
  for (Sample& sample : list) sample.attrs.set("block", int64_t{3});
  // The first sample's types, with more tokens and other masks.
  constexpr int kRandomMasks = 10;
  for (int i = 0; i < kRandomMasks; ++i) {
    Sample sample{.name = "random_mask_" + std::to_string(i), .operands = samples[0].operands};
    for (ir::TensorType& type : sample.operands) type.shape[type.rank() == 4 ? 1 : 2] = 13 + i % 4;
    sample.attrs = random_mask(base::Philox(7, sample.name));
    list.push_back(std::move(sample));
  }
  return list;
}

/// `whole` in the form that compilers loop over.
OpDef as_loop(OpDef whole, std::string name) {
  OpDef def = std::move(whole);
  def.doc = "a looped form of " + def.name + ": " + def.doc;
  def.infer = [infer = def.infer, name](const Types& operands, const ir::Attrs& attrs) {
    if (attrs.has("block")) require_at_least(name, attrs, "block", 1);
    return infer(operands, attrs);
  };
  def.grad = {};
  def.no_grad = "made behind autodiff";
  def.statistics_from = SIZE_MAX;
  def.partition = {};
  def.looped = {};
  def.samples = [samples = def.samples] { return in_blocks(samples()); };
  def.name = std::move(name);
  return def;
}

}  // namespace

bool becomes_loop(const NodeView& view) {
  const LoopSizes sizes(view, kAttentionBlock);
  if (sizes.z.s < kAttentionBlock) return false;
  if (sizes.z.t > kLongestUnrolled) return true;
  int64_t unrolled = 0;
  for (const QueryBlock& block : query_blocks(sizes.z, AttentionMask::from(view.attrs), view.attrs.flag("placed")))
    unrolled += block.size * block.keys.size();
  return 4 * sizes.table.pairs() * kAttentionBlock * kAttentionBlock <= 3 * unrolled;
}

OpDef blocked_attention_def() {
  OpDef def = as_loop(attention_def(), "blocked_attention");
  def.cost = forward_cost;
  def.temporaries = forward_temporaries;
  def.stablehlo = write_blocked_attention;
  return def;
}

OpDef blocked_attention_grad_def() {
  OpDef def = as_loop(attention_grad_def(), "blocked_attention_grad");
  def.cost = backward_cost;
  def.temporaries = backward_temporaries;
  def.stablehlo = write_blocked_attention_grad;
  return def;
}

}  // namespace megacpp::ops
