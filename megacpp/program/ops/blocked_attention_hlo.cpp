// SPDX-License-Identifier: Apache-2.0
// In comments, beside those of attention_decompose.h: B tokens of a block, Q and T queries and keys with those that
// fill the last block.
#include "megacpp/program/ops/blocked_attention_hlo.h"

#include <optional>

#include "megacpp/program/ops/attention_block_table.h"
#include "megacpp/program/ops/attention_decompose.h"

namespace megacpp::ops {
namespace {

// Lowest and highest position of each block: i32[blocks].
struct BlockPositions {
  HloValue low, high;
};

class BlockLoop {
 public:
  BlockLoop(HloWriter& w, const HloArgs& args, size_t token_operands)
      : w_(w),
        args_(args),
        tokens_(TokenOperands::behind(token_operands, args.attrs())),
        mask_(AttentionMask::from(args.attrs())),
        z_(args.view.operands[0], args.view.operands[1]),
        block_(attention_block(args.attrs())),
        table_(z_.s, z_.t, block_, mask_, PlacedRuns::from(args.attrs())),
        q_(padded(args.operands[0], 1)),
        k_(padded(args.operands[1], 1)),
        v_(padded(args.operands[2], 1)) {
    if (tokens_.documents) {
      query_segments_ = padded(args.operands[tokens_.query_segments()], 1);
      key_segments_ = padded(args.operands[tokens_.key_segments()], 1);
    }
    if (tokens_.placed) {
      query_positions_ = padded(args.operands[tokens_.query_positions()], 0);
      key_positions_ = padded(args.operands[tokens_.key_positions()], 0);
    }
  }

  const AttentionDims& dims() const { return z_; }
  int64_t block() const { return block_; }
  int64_t queries() const { return table_.query_blocks() * block_; }  // Q
  int64_t keys() const { return table_.key_blocks() * block_; }       // T
  const std::string& element() const { return args_.operands[0].type.element; }

  /// Zeros behind the end of `dim` until its blocks are full.
  HloValue padded(const HloValue& a, int64_t dim) const {
    const int64_t size = a.type.shape[static_cast<size_t>(dim)], rest = size % block_;
    return rest == 0 ? a : w_.pad(a, dim, 0, block_ - rest, 0);
  }

  /// One pair of blocks.
  struct Pair {
    HloValue query_block;             // its number
    HloValue query_start, key_start;  // first tokens
    HloValue begins;                  // whether the pair before it was of another block of queries
  };
  using Body = std::function<std::vector<HloValue>(const Pair& pair, const std::vector<HloValue>& carried)>;

  /// Runs `body` for all pairs, those of a block of queries one after the other; what is carried at the end.
  std::vector<HloValue> run(std::vector<HloValue> carried, const Body& body) const {
    const HloValue is_seen = seen_pairs();
    const HloValue pairs = in_order(is_seen);
    carried.insert(carried.begin(), number(-1));  // the block of queries that the last pair was of
    const auto step = [&](const HloValue& index, const std::vector<HloValue>& inside) {
      const Pair pair = pair_at(pairs, index, inside[0]);
      std::vector<HloValue> next = body(pair, {inside.begin() + 1, inside.end()});
      next.insert(next.begin(), pair.query_block);
      return next;
    };
    std::vector<HloValue> last = tokens_.placed
                                     ? w_.loop(w_.reduce(w_.convert(is_seen, "i32"), {0}, "add"), carried, step)
                                     : w_.loop(table_.pairs(), carried, step);
    last.erase(last.begin());
    return last;
  }

  /// Queries [b,Q,H,d], or what has their shape -> [b,B,K,g,d]
  HloValue of_queries(const Pair& pair, const HloValue& rows) const {
    return w_.reshape(w_.dynamic_slice(rows, 1, pair.query_start, block_), {z_.b, block_, z_.kv_heads, z_.group, z_.d});
  }
  HloValue own_queries(const Pair& pair) const { return of_queries(pair, q_); }
  /// [b,B,K,d]
  HloValue own_keys(const Pair& pair) const { return w_.dynamic_slice(k_, 1, pair.key_start, block_); }
  HloValue own_values(const Pair& pair) const { return w_.dynamic_slice(v_, 1, pair.key_start, block_); }
  /// [b,H,Q] -> [b,K,B,g]
  HloValue per_query(const Pair& pair, const HloValue& statistic) const {
    const HloValue own = w_.dynamic_slice(statistic, 2, pair.query_start, block_);
    return w_.transpose(w_.reshape(own, {z_.b, z_.kv_heads, z_.group, block_}), {0, 1, 3, 2});
  }

  struct Scores {
    HloValue visible;                    // i1[b,K,B,g,B]
    HloValue masked;                     // f32[b,K,B,g,B]: scaled scores, kHiddenScore where not visible
    std::optional<HloValue> slope = {};  // of the soft cap at each score, where there is one
  };
  Scores scores(const Pair& pair) const {
    const HloValue q = own_queries(pair);
    const HloValue products = to_pairs(q, own_keys(pair));
    const double cap = args_.attrs().real("softcap", 0), scale = args_.attrs().real("scale");
    const auto times = [&](const HloValue& a, double by) { return w_.binary("multiply", a, w_.constant(by, a.type)); };
    HloValue scaled = times(products, cap > 0 ? scale / cap : scale);
    std::optional<HloValue> slope;
    if (cap > 0) {
      const HloValue bent = w_.unary("tanh", scaled);
      slope = w_.binary("subtract", w_.constant(1, bent.type), w_.binary("multiply", bent, bent));
      scaled = times(bent, cap);
    }
    const HloValue visible = spread_mask(pair, products.type.shape);
    return {visible, w_.select(visible, scaled, w_.constant(kHiddenScore, products.type)), slope};
  }

  /// Scores of the sinks of the queries of a block: f32[b,K,B,g]; nothing without sinks.
  std::optional<HloValue> sinks() const {
    if (!tokens_.sinks) return std::nullopt;
    const HloValue by_group = w_.reshape(args_.operands[tokens_.sink_scores()], {z_.kv_heads, z_.group});
    return w_.broadcast(by_group, {z_.b, z_.kv_heads, block_, z_.group}, {1, 3});
  }

  /// exp(scores - shift[b,K,B,g]), zero where not visible.
  HloValue weights(const Scores& scores, const HloValue& shift) const {
    const HloValue weights = w_.unary("exponential", w_.binary("subtract", scores.masked, along_keys(shift)));
    return w_.select(scores.visible, weights, w_.constant(0, weights.type));
  }

  /// [b,K,B,g] -> [b,K,B,g,n]
  HloValue repeated(const HloValue& a, int64_t n) const {
    return w_.broadcast(a, {z_.b, z_.kv_heads, block_, z_.group, n}, {0, 1, 2, 3});
  }
  HloValue along_keys(const HloValue& a) const { return repeated(a, block_); }

  /// [b,B,K,g,d], [b,B,K,d] -> f32[b,K,B,g,B]
  HloValue to_pairs(const HloValue& of_queries, const HloValue& of_keys) const {
    return w_.dot(of_queries, of_keys, {{0, 2}, {0, 2}, {4}, {3}}, "f32");
  }
  /// [b,K,B,g,B], [b,B,K,d] -> f32[b,K,B,g,d]
  HloValue to_queries(const HloValue& weights, const HloValue& of_keys) const {
    return w_.dot(w_.convert(weights, element()), of_keys, {{0, 1}, {0, 2}, {4}, {1}}, "f32");
  }
  /// [b,K,B,g,B], [b,B,K,g,d] -> f32[b,K,B,d]
  HloValue to_keys(const HloValue& weights, const HloValue& of_queries) const {
    return w_.dot(w_.convert(weights, element()), of_queries, {{0, 1}, {0, 2}, {2, 3}, {1, 3}}, "f32");
  }

  /// f32[b,K,B,g,d] into rows [b,Q,H,d] of the queries' type
  HloValue put_queries(const Pair& pair, const HloValue& rows, const HloValue& a) const {
    const HloValue by_token = w_.reshape(w_.transpose(a, {0, 2, 1, 3, 4}), {z_.b, block_, z_.heads, z_.d});
    return w_.put_slice(rows, w_.convert(by_token, element()), 1, pair.query_start);
  }
  /// f32[b,K,B,g] into [b,H,Q]
  HloValue put_statistic(const Pair& pair, const HloValue& all, const HloValue& a) const {
    const HloValue by_head = w_.reshape(w_.transpose(a, {0, 1, 3, 2}), {z_.b, z_.heads, block_});
    return w_.put_slice(all, by_head, 2, pair.query_start);
  }
  /// f32[b,K,B,d] added to sums f32[b,K,T,d]
  HloValue add_keys(const Pair& pair, const HloValue& sums, const HloValue& a) const {
    const HloValue sum = w_.binary("add", w_.dynamic_slice(sums, 2, pair.key_start, block_), a);
    return w_.put_slice(sums, sum, 2, pair.key_start);
  }

 private:
  HloValue number(int64_t value, const ir::Shape& shape = {}) const {
    return w_.constant(static_cast<double>(value), {"i32", shape});
  }
  HloValue less_than(const HloValue& a, int64_t value) const {
    return w_.compare(a, number(value, a.type.shape), "LT");
  }
  HloValue divided(const HloValue& a, int64_t by) const { return w_.binary("divide", a, number(by, a.type.shape)); }

  BlockPositions in_order_positions(int64_t blocks, int64_t tokens) const {
    const HloValue blocks_before = w_.iota({"i32", {blocks}}, 0);
    const HloValue low = w_.binary("multiply", blocks_before, number(block_, {blocks}));
    const HloValue full = w_.binary("add", low, number(block_ - 1, {blocks}));
    return {low, w_.binary("minimum", full, number(tokens - 1, {blocks}))};
  }

  // What fills the last block is lower than any position, and so are the negatives that it gets.
  BlockPositions placed_positions(int64_t blocks, const HloValue& positions) const {
    const auto highest = [&](const HloValue& a) {
      const int64_t rest = blocks * block_ - a.type.shape[0];
      const HloValue all = rest == 0 ? a : w_.pad(a, 0, 0, rest, -2147483647.0);
      return w_.reduce(w_.reshape(all, {blocks, block_}), {1}, "maximum");
    };
    const HloValue low = w_.unary("negate", highest(w_.unary("negate", positions)));
    return {low, highest(positions)};
  }

  BlockPositions query_positions() const {
    return tokens_.placed ? placed_positions(table_.query_blocks(), args_.operands[tokens_.query_positions()])
                          : in_order_positions(table_.query_blocks(), z_.s);
  }
  BlockPositions key_positions() const {
    return tokens_.placed ? placed_positions(table_.key_blocks(), args_.operands[tokens_.key_positions()])
                          : in_order_positions(table_.key_blocks(), z_.t);
  }

  // AttentionMask::cover of all pairs of blocks, other than none: i1[query blocks * key blocks].
  HloValue seen_pairs() const {
    const ir::Shape shape = {table_.query_blocks(), table_.key_blocks()};
    const BlockPositions queries = query_positions(), keys = key_positions();
    const auto of_query = [&](const HloValue& a) { return w_.broadcast(a, shape, {0}); };
    const auto of_key = [&](const HloValue& a) { return w_.broadcast(a, shape, {1}); };
    const HloValue query_low = of_query(queries.low), query_high = of_query(queries.high);
    const HloValue key_low = of_key(keys.low), key_high = of_key(keys.high);
    HloValue seen = w_.constant(1, {"i1", shape});
    if (mask_.causal) seen = w_.compare(key_low, query_high, "LE");
    if (mask_.window > 0)
      seen = w_.binary("and", seen, less_than(w_.binary("subtract", query_low, key_high), mask_.window));
    if (mask_.sparse_block > 0) {
      const int64_t sparse = mask_.sparse_block;
      const HloValue lowest_query = divided(query_low, sparse), lowest_key = divided(key_low, sparse);
      const HloValue before = w_.binary("subtract", lowest_query, divided(key_high, sparse));
      const HloValue behind = w_.binary("subtract", lowest_key, divided(query_high, sparse));
      const HloValue nearest = w_.binary("maximum", before, behind);
      const HloValue apart = w_.binary("maximum", nearest, number(0, shape));
      const HloValue global = less_than(lowest_key, mask_.sparse_global);
      seen = w_.binary("and", seen, w_.binary("or", global, less_than(apart, mask_.sparse_local)));
    }
    return w_.reshape(seen, {shape[0] * shape[1]});
  }

  // Pairs that are seen, as query block * key blocks + key block, ascending; others stand behind them. The barrier
  // keeps XLA from sorting constants while it compiles.
  HloValue in_order(const HloValue& is_seen) const {
    const ir::Shape& shape = is_seen.type.shape;
    const HloValue all = w_.iota({"i32", shape}, 0);
    const std::vector<HloValue> numbers = {w_.select(is_seen, all, number(shape[0], shape))};
    const std::vector<HloValue> held = w_.barrier(numbers);
    return w_.sort(held, 0,
                   "%r = \"stablehlo.compare\"(%a0, %b0) {comparison_direction = #stablehlo<comparison_direction LT>} "
                   ": (tensor<i32>, tensor<i32>) -> tensor<i1>")[0];
  }

  Pair pair_at(const HloValue& pairs, const HloValue& index, const HloValue& last_query_block) const {
    const HloValue pair = w_.take_member(pairs, index);
    const HloValue query_block = divided(pair, table_.key_blocks());
    const HloValue key_block = w_.binary("remainder", pair, number(table_.key_blocks()));
    const HloValue size = number(block_);
    const HloValue query_start = w_.binary("multiply", query_block, size);
    return {query_block, query_start, w_.binary("multiply", key_block, size),
            w_.compare(query_block, last_query_block, "NE")};
  }

  // Places of a block's tokens in their tensor: i32[B]
  HloValue places(const HloValue& start) const {
    const HloValue of_block = w_.iota({"i32", {block_}}, 0);
    return w_.binary("add", of_block, w_.broadcast(start, {block_}, {}));
  }

  // i1[B,B]: by positions, and no key behind the last.
  HloValue mask_of_positions(const Pair& pair) const {
    const ir::Shape shape = {block_, block_};
    const HloValue key_places = places(pair.key_start);
    const HloValue query = w_.broadcast(
        tokens_.placed ? w_.dynamic_slice(query_positions_, 0, pair.query_start, block_) : places(pair.query_start),
        shape, {0});
    const HloValue key = w_.broadcast(
        tokens_.placed ? w_.dynamic_slice(key_positions_, 0, pair.key_start, block_) : key_places, shape, {1});
    HloValue seen = w_.broadcast(less_than(key_places, z_.t), shape, {1});
    if (mask_.causal) seen = w_.binary("and", seen, w_.compare(query, key, "GE"));
    if (mask_.window > 0) seen = w_.binary("and", seen, less_than(w_.binary("subtract", query, key), mask_.window));
    if (mask_.sparse_block > 0) {
      const HloValue key_block = divided(key, mask_.sparse_block), query_block = divided(query, mask_.sparse_block);
      const HloValue apart = w_.unary("abs", w_.binary("subtract", query_block, key_block));
      const HloValue global = less_than(key_block, mask_.sparse_global);
      seen = w_.binary("and", seen, w_.binary("or", global, less_than(apart, mask_.sparse_local)));
    }
    return seen;
  }

  // i1[b,K,B,g,B]
  HloValue spread_mask(const Pair& pair, const ir::Shape& shape) const {
    const HloValue mask = mask_of_positions(pair);
    if (!tokens_.documents) return w_.broadcast(mask, shape, {2, 4});
    const ir::Shape of_batch = {z_.b, block_, block_};
    const HloValue query =
        w_.broadcast(w_.dynamic_slice(query_segments_, 1, pair.query_start, block_), of_batch, {0, 1});
    const HloValue key = w_.broadcast(w_.dynamic_slice(key_segments_, 1, pair.key_start, block_), of_batch, {0, 2});
    const HloValue same = w_.compare(query, key, "EQ");
    return w_.broadcast(w_.binary("and", same, w_.broadcast(mask, of_batch, {1, 2})), shape, {0, 2, 4});
  }

  HloWriter& w_;
  const HloArgs& args_;
  TokenOperands tokens_;
  AttentionMask mask_;
  AttentionDims z_;
  int64_t block_;
  AttentionBlockTable table_;
  HloValue q_, k_, v_;                                                        // [b,Q,H,d], [b,T,K,d]
  HloValue query_segments_, key_segments_, query_positions_, key_positions_;  // [b,Q], [b,T], [Q], [T]; where there are
};

}  // namespace

int64_t attention_block(const ir::Attrs& attrs) { return attrs.integer("block", kAttentionBlock); }

// What a block of queries has summed up so far is normalised and stored with every pair: the last one of the block
// leaves what stays, and the loop needs no branch. Blocks that see nothing keep zeros.
HloResults write_blocked_attention(HloWriter& w, const HloArgs& args) {
  const BlockLoop blocks(w, args, kAttentionOperands);
  const AttentionDims& z = blocks.dims();
  const HloType per_query{"f32", {z.b, z.kv_heads, blocks.block(), z.group}};
  const HloType mixed{"f32", {z.b, z.kv_heads, blocks.block(), z.group, z.d}};
  const auto attend = [&](const BlockLoop::Pair& pair, const std::vector<HloValue>& carried) -> std::vector<HloValue> {
    const std::optional<HloValue> sinks = blocks.sinks();  // met before any key
    const HloValue first = sinks ? *sinks : w.constant(kHiddenScore, per_query);
    const HloValue highest = w.select(pair.begins, first, carried[0]);
    const HloValue sum = w.select(pair.begins, w.constant(sinks ? 1 : 0, per_query), carried[1]);
    const HloValue rows = w.select(pair.begins, w.constant(0, mixed), carried[2]);
    const BlockLoop::Scores scores = blocks.scores(pair);
    const HloValue next_highest = w.binary("maximum", highest, w.reduce(scores.masked, {4}, "maximum"));
    const HloValue p = blocks.weights(scores, next_highest);
    const HloValue shrunk = w.unary("exponential", w.binary("subtract", highest, next_highest));
    const HloValue kept_sum = w.binary("multiply", sum, shrunk);
    const HloValue next_sum = w.binary("add", kept_sum, w.reduce(p, {4}, "add"));
    const HloValue kept_rows = w.binary("multiply", rows, blocks.repeated(shrunk, z.d));
    const HloValue next_rows = w.binary("add", kept_rows, blocks.to_queries(p, blocks.own_values(pair)));
    // The highest score alone contributes one, so this changes nothing but rows that see nothing.
    const HloValue divisor = w.binary("maximum", next_sum, w.constant(1, per_query));
    const HloValue out = w.binary("divide", next_rows, blocks.repeated(divisor, z.d));
    const HloValue lse = w.binary("add", next_highest, w.unary("log", divisor));
    const HloValue outs = blocks.put_queries(pair, carried[3], out);
    return {next_highest, next_sum, next_rows, outs, blocks.put_statistic(pair, carried[4], lse)};
  };
  const HloValue zeros = w.constant(0, per_query);
  const HloType statistic{"f32", {z.b, z.heads, blocks.queries()}};
  const auto tokens = TokenOperands::behind(kAttentionOperands, args.attrs());
  const HloValue lse_of_none = tokens.sinks ? w.broadcast(args.operands[tokens.sink_scores()], statistic.shape, {1})
                                            : w.constant(kHiddenScore, statistic);
  const std::vector<HloValue> last =
      blocks.run({zeros, zeros, w.constant(0, mixed),
                  w.constant(0, {blocks.element(), {z.b, blocks.queries(), z.heads, z.d}}), lse_of_none},
                 attend);
  return {w.slice(last[3], 1, 0, z.s), w.slice(last[4], 2, 0, z.s)};
}

HloResults write_blocked_attention_grad(HloWriter& w, const HloArgs& args) {
  const BlockLoop blocks(w, args, kAttentionGradOperands);
  const AttentionDims& z = blocks.dims();
  const HloValue wide_dout = w.convert(args.operands[5], "f32");
  const HloValue products = w.binary("multiply", wide_dout, w.convert(args.operands[3], "f32"));
  const HloValue deltas = blocks.padded(w.transpose(w.reduce(products, {3}, "add"), {0, 2, 1}), 2);  // [b,H,Q]
  const HloValue lses = blocks.padded(args.operands[4], 2), douts = blocks.padded(args.operands[5], 1);
  const HloType of_queries{"f32", {z.b, z.kv_heads, blocks.block(), z.group, z.d}};
  const HloType of_keys{"f32", {z.b, z.kv_heads, blocks.keys(), z.d}};
  const auto go_back = [&](const BlockLoop::Pair& pair, const std::vector<HloValue>& carried) -> std::vector<HloValue> {
    const BlockLoop::Scores scores = blocks.scores(pair);
    const HloValue p = blocks.weights(scores, blocks.per_query(pair, lses));
    const HloValue dout = blocks.of_queries(pair, douts);
    const HloValue dp = blocks.to_pairs(dout, blocks.own_values(pair));
    const HloValue centred = w.binary("subtract", dp, blocks.along_keys(blocks.per_query(pair, deltas)));
    const HloValue scale = w.constant(args.attrs().real("scale"), p.type);
    HloValue of_scores = w.binary("multiply", p, centred);
    if (scores.slope) of_scores = w.binary("multiply", of_scores, *scores.slope);
    const HloValue ds = w.binary("multiply", of_scores, scale);
    const HloValue so_far = w.select(pair.begins, w.constant(0, of_queries), carried[0]);
    const HloValue dq = w.binary("add", so_far, blocks.to_queries(ds, blocks.own_keys(pair)));
    const HloValue dqs = blocks.put_queries(pair, carried[1], dq);
    const HloValue dks = blocks.add_keys(pair, carried[2], blocks.to_keys(ds, blocks.own_queries(pair)));
    return {dq, dqs, dks, blocks.add_keys(pair, carried[3], blocks.to_keys(p, dout))};
  };
  const HloValue no_keys = w.constant(0, of_keys);
  const std::vector<HloValue> last =
      blocks.run({w.constant(0, of_queries), w.constant(0, {blocks.element(), {z.b, blocks.queries(), z.heads, z.d}}),
                  no_keys, no_keys},
                 go_back);
  const auto rows = [&](const HloValue& sums) {  // [b,K,T,d] -> [b,t,K,d]
    return w.convert(w.transpose(w.slice(sums, 2, 0, z.t), {0, 2, 1, 3}), blocks.element());
  };
  const HloValue dk = rows(last[2]);
  return {w.slice(last[1], 1, 0, z.s), dk, rows(last[3])};
}

}  // namespace megacpp::ops
