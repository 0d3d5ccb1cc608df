// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient in the form that compilers loop over. Backends of our own never meet these ops; they would
// be taken apart there as attention is.
#include "megacpp/ops/blocked_attention.h"

#include "megacpp/base/philox.h"
#include "megacpp/ops/attention_block_table.h"
#include "megacpp/ops/attention_decompose.h"
#include "megacpp/ops/blocked_attention_hlo.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {

OpDef attention_def();
OpDef attention_grad_def();

namespace {

// What a node's loop goes over.
struct LoopSizes {
  AttentionDims z;
  int64_t block;
  AttentionBlockTable table;
  int64_t element_bytes;

  LoopSizes(const NodeView& view, int64_t block_size)
      : z(view.operands[0], view.operands[1]),
        block(block_size),
        table(z.s, z.t, block, AttentionMask::from(view.attrs), PlacedRuns::from(view.attrs)),
        element_bytes(ir::dtype_bytes(view.operands[0].dtype)) {}
  explicit LoopSizes(const NodeView& view) : LoopSizes(view, attention_block(view.attrs)) {}

  int64_t scores() const { return z.b * z.heads * block * block; }  // of a pair of blocks
  int64_t queries() const { return z.b * block * z.heads * z.d; }   // elements of a block
  int64_t keys() const { return z.b * block * z.kv_heads * z.d; }   // likewise
  int64_t all_keys() const { return keys() * table.key_blocks(); }  // with those that fill the last block
  bool fills_queries() const { return z.s % block != 0; }           // the last block, with zeros
  bool fills_keys() const { return z.t % block != 0; }
};

constexpr int64_t kSumBytes = 4;  // f32

Cost cost_of(const LoopSizes& sizes, double flops_per_product, int64_t bytes_per_pair) {
  const double pairs = static_cast<double>(sizes.table.pairs());
  const double scores = pairs * static_cast<double>(sizes.scores());
  return {.flops = flops_per_product * scores * static_cast<double>(sizes.z.d),
          .exponentials = scores,
          .bytes = pairs * static_cast<double>(bytes_per_pair)};
}

// Each pair reads q, k, v, stores out, and reads and writes the sums of its queries. Scores are left out: the rate that
// attention was measured to reach has them.
Cost forward_cost(const NodeView& view) {
  const LoopSizes sizes(view);
  return cost_of(sizes, 4,
                 2 * (sizes.queries() + sizes.keys()) * sizes.element_bytes + 2 * sizes.queries() * kSumBytes);
}

// Each pair reads q, k, v and dout, stores dq, and reads and writes the sums of dq, dk and dv.
Cost backward_cost(const NodeView& view) {
  const LoopSizes sizes(view);
  return cost_of(sizes, 10,
                 (3 * sizes.queries() + 2 * sizes.keys()) * sizes.element_bytes +
                     (2 * sizes.queries() + 4 * sizes.keys()) * kSumBytes);
}

int64_t filled_copies(const LoopSizes& sizes, int64_t of_queries, int64_t of_keys) {
  const int64_t queries = sizes.fills_queries() ? of_queries * sizes.queries() * sizes.table.query_blocks() : 0;
  const int64_t keys = sizes.fills_keys() ? of_keys * sizes.all_keys() : 0;
  return (queries + keys) * sizes.element_bytes;
}

// Scores in f32 and the weights that products read, of one pair; the sums of its queries before and after it; operands
// and results that are longer by what fills their last block.
int64_t forward_bytes(const NodeView& view) {
  const LoopSizes sizes(view);
  return sizes.scores() * (kSumBytes + sizes.element_bytes) + 2 * sizes.queries() * kSumBytes +
         filled_copies(sizes, 2, 2);
}

// Scores and their gradient, in f32 and as products read them; and dk and dv of all keys in f32.
int64_t backward_bytes(const NodeView& view) {
  const LoopSizes sizes(view);
  return 2 * sizes.scores() * (kSumBytes + sizes.element_bytes) + 2 * sizes.queries() * kSumBytes +
         2 * sizes.all_keys() * kSumBytes + filled_copies(sizes, 3, 2);
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
OpDef looped_form(OpDef whole, std::string name) {
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

bool takes_blocks(const NodeView& view) {
  const LoopSizes sizes(view, kAttentionBlock);
  if (sizes.z.s < kAttentionBlock) return false;
  if (sizes.z.t > kLongestUnrolled) return true;
  int64_t unrolled = 0;
  for (const QueryBlock& block : query_blocks(sizes.z, AttentionMask::from(view.attrs), view.attrs.flag("placed")))
    unrolled += block.size * (block.keys.end - block.keys.begin);
  return 4 * sizes.table.pairs() * kAttentionBlock * kAttentionBlock <= 3 * unrolled;
}

OpDef blocked_attention_def() {
  OpDef def = looped_form(attention_def(), "blocked_attention");
  def.cost = forward_cost;
  def.temporary_bytes = forward_bytes;
  def.stablehlo = write_blocked_attention;
  return def;
}

OpDef blocked_attention_grad_def() {
  OpDef def = looped_form(attention_grad_def(), "blocked_attention_grad");
  def.cost = backward_cost;
  def.temporary_bytes = backward_bytes;
  def.stablehlo = write_blocked_attention_grad;
  return def;
}

}  // namespace megacpp::ops
