// SPDX-License-Identifier: Apache-2.0
// Softmax attention with grouped heads and masks, and its gradient from the saved log-sum-exp. Queries and keys are the
// same tokens, in order, unless `placed`: then each side is any run of a sequence, with its positions in time. With
// `softcap` c scores become c tanh(score / c) ahead of the mask. A sink is a score of its own beside those of the keys:
// it takes weight, adds nothing to the result, and is in the log-sum-exp, so that the gradient of q, k and v has no
// need of it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/attention_block_table.h"
#include "megacpp/program/ops/attention_decompose.h"
#include "megacpp/program/ops/attention_mask.h"
#include "megacpp/program/ops/attention_ring.h"
#include "megacpp/program/ops/blocked_attention.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::TensorType;

TensorType lse_type(const TensorType& q) { return {DType::f32, {q.dim(0), q.dim(2), q.dim(1)}}; }

// Types of the operands that describe tokens, in their order.
Types token_types(const TokenOperands& tokens, const TensorType& q, const TensorType& k) {
  Types types;
  const auto add = [&types](ir::Shape of_queries, ir::Shape of_keys) {
    types.push_back({DType::i32, std::move(of_queries)});
    types.push_back({DType::i32, std::move(of_keys)});
  };
  if (tokens.documents) add({q.dim(0), q.dim(1)}, {k.dim(0), k.dim(1)});
  if (tokens.placed) add({q.dim(1)}, {k.dim(1)});
  if (tokens.sinks) types.push_back({DType::f32, {q.dim(2)}});
  return types;
}

void check_inputs(std::string_view op, const Types& operands, const TokenOperands& tokens, const ir::Attrs& attrs) {
  for (const char* name : {"window", "sparse_block", "sparse_local", "sparse_global"})
    require_at_least(op, attrs, name, 0);
  require_operands(attrs.real("softcap", 0) >= 0, op, operands, "softcap of at least 0");
  require_operands(operands.size() == tokens.end(), op, operands,
                   std::to_string(tokens.first) +
                       " operands, two segments with documents=1, two positions with placed=1, of attention "
                       "alone the scores of sinks with sinks=1");
  const TensorType& q = operands[0];
  const TensorType& k = operands[1];
  require_float_rank(op, "q", q, 4);
  require_float_rank(op, "k", k, 4);
  MEGACPP_REQUIRE(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0, E1301,
                  {.where = std::string(op),
                   .got = std::to_string(q.dim(2)) + " query heads, " + std::to_string(k.dim(2)) + " key heads",
                   .wanted = "a multiple"});
  const int64_t keys = tokens.placed ? k.dim(1) : q.dim(1);
  require_type(op, "k", k, {q.dtype, {q.dim(0), keys, k.dim(2), q.dim(3)}});
  require_type(op, "v", operands[2], k);
  const Types wanted = token_types(tokens, q, k);
  for (size_t i = 0; i < wanted.size(); ++i)
    require_type(op, "operand " + std::to_string(tokens.first + i), operands[tokens.first + i], wanted[i]);
}

Types infer_attention(const Types& operands, const ir::Attrs& attrs) {
  check_inputs("attention", operands, TokenOperands::behind(kAttentionOperands, attrs), attrs);
  return {operands[0], lse_type(operands[0])};
}

Types infer_attention_grad(const Types& operands, const ir::Attrs& attrs) {
  constexpr std::string_view kOp = "attention_grad";
  check_inputs(kOp, operands, TokenOperands::behind(kAttentionGradOperands, attrs), attrs);
  require_type(kOp, "out", operands[3], operands[0]);
  require_type(kOp, "lse", operands[4], lse_type(operands[0]));
  require_type(kOp, "dout", operands[5], operands[0]);
  return {operands[0], operands[1], operands[2]};
}

Factors attention_factors(const NodeView& view, std::string spec, std::string_view results) {
  if (view.attrs.flag("documents")) spec += ", b s, b t";
  if (view.attrs.flag("placed")) spec += ", s, t";
  if (view.attrs.flag("sinks")) spec += ", (k g)";
  // Unplaced, queries and keys are the same tokens; both are whole, so it does not matter that they have two names.
  return factors_from(view, spec + " -> " + std::string(results), "s t d");
}

// Of the weight exp(sink - lse) of each query's sink, whose value is zero: minus the sum of weight times dout . out.
ValueId sinks_cotangent(const GradArgs& args, ValueId sinks, ValueId dout) {
  Builder& b = args.builder;
  const ValueId wide = b.convert(dout, DType::f32);
  const ValueId delta = b.reduce_sum(b.mul(wide, b.convert(args.results[0], DType::f32)), {3});  // [b,s,H]
  const ValueId lse = b.transpose(args.results[1], {0, 2, 1});
  const ValueId weight = b.exp(b.sub(b.broadcast(sinks, b.shape(lse), {2}), lse));
  return b.neg(b.reduce_sum(b.mul(weight, delta), {0, 1}));
}

Cotangents attention_cotangents(const GradArgs& args) {
  MEGACPP_CHECK(!args.cotangents[1].has_value()) << "attention passes no gradient through lse";
  const auto of_tokens = TokenOperands::behind(kAttentionOperands, args.attrs);
  const auto tokens = args.operands.begin() + kAttentionOperands;
  std::vector<ValueId> operands(args.operands.begin(), tokens);
  operands.insert(operands.end(), {args.results[0], args.results[1], *args.cotangents[0]});
  operands.insert(operands.end(), tokens, args.operands.begin() + static_cast<int64_t>(of_tokens.sink_scores()));
  ir::Attrs attrs = args.attrs;
  attrs.erase("sinks");
  const std::vector<ValueId> grads = args.builder.node("attention_grad", operands, attrs);
  Cotangents cotangents(grads.begin(), grads.end());
  cotangents.resize(args.operands.size());
  if (of_tokens.sinks)
    cotangents[of_tokens.sink_scores()] =
        sinks_cotangent(args, args.operands[of_tokens.sink_scores()], *args.cotangents[0]);
  return cotangents;
}

Cost attention_cost(const NodeView& view, double flops_per_product) {
  const AttentionDims z(view.operands[0], view.operands[1]);
  const AttentionMask mask = AttentionMask::from(view.attrs);
  const std::optional<PlacedRuns> placed = PlacedRuns::from(view.attrs);
  const int64_t pairs = placed ? placed->visible_pairs(mask, z.s, z.t) : mask.visible_pairs(z.s, z.t);
  const double scores = static_cast<double>(pairs) * static_cast<double>(z.b * z.heads);
  const double per_score = view.attrs.real("softcap", 0) > 0 ? 2 : 1;  // with the exponential in tanh
  return {.flops = flops_per_product * scores * static_cast<double>(z.d), .exponentials = per_score * scores};
}

std::string_view if_blocked(const NodeView& view, std::string_view form) {
  return becomes_loop(view) ? form : std::string_view();
}

// ---- Reference ----

struct SeenKey {
  int64_t j;
  double score;
};

// What hides keys from queries: the mask of their positions, and segments.
class Visibility {
 public:
  Visibility(std::span<const Tensor> operands, const TokenOperands& tokens, const ir::Attrs& attrs)
      : operands_(operands), tokens_(tokens), mask_(AttentionMask::from(attrs)) {}

  bool operator()(int64_t batch, int64_t i, int64_t j) const {
    if (tokens_.placed && !mask_.visible(label(tokens_.query_positions(), i), label(tokens_.key_positions(), j)))
      return false;
    if (!tokens_.placed && !mask_.visible(i, j)) return false;
    return !tokens_.documents || label(tokens_.query_segments(), batch * operands_[0].type.dim(1) + i) ==
                                     label(tokens_.key_segments(), batch * operands_[1].type.dim(1) + j);
  }

 private:
  int64_t label(size_t operand, int64_t at) const { return static_cast<int64_t>(operands_[operand][at]); }

  std::span<const Tensor> operands_;
  TokenOperands tokens_;
  AttentionMask mask_;
};

// Calls body(batch, head, i, keys) for each query, with the keys it sees and their scaled scores.
template <typename Body>
void for_each_query(std::span<const Tensor> operands, const TokenOperands& tokens, const ir::Attrs& attrs,
                    const Body& body) {
  const Tensor &q = operands[0], &k = operands[1];
  const AttentionDims z(q.type, k.type);
  const Visibility visible(operands, tokens, attrs);
  const double scale = attrs.real("scale"), cap = attrs.real("softcap", 0);
  for_each_index({z.b, z.heads, z.s}, [&](const ir::Shape& at) {
    std::vector<SeenKey> keys;
    for (int64_t j = 0; j < z.t; ++j) {
      if (!visible(at[0], at[2], j)) continue;
      double score = 0;
      for (int64_t c = 0; c < z.d; ++c) score += q[z.q_at(at[0], at[2], at[1]) + c] * k[z.k_at(at[0], j, at[1]) + c];
      keys.push_back({j, cap > 0 ? cap * std::tanh(score * scale / cap) : score * scale});
    }
    body(at[0], at[1], at[2], keys);
  });
}

void reference_attention(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& v = operands[2];
  const AttentionDims z(operands[0].type, operands[1].type);
  const TokenOperands tokens = TokenOperands::behind(kAttentionOperands, attrs);
  const auto attend = [&](int64_t batch, int64_t head, int64_t i, const std::vector<SeenKey>& keys) {
    double highest = tokens.sinks ? operands[tokens.sink_scores()][head] : kHiddenScore;
    double sum = tokens.sinks ? 1 : 0;
    const double sink = highest;
    for (const SeenKey& key : keys) highest = std::max(highest, key.score);
    sum *= std::exp(sink - highest);
    for (const SeenKey& key : keys) sum += std::exp(key.score - highest);
    for (const SeenKey& key : keys)
      for (int64_t c = 0; c < z.d; ++c)
        results[0][z.q_at(batch, i, head) + c] +=
            std::exp(key.score - highest) / sum * v[z.k_at(batch, key.j, head) + c];
    results[1][z.lse_at(batch, i, head)] = sum > 0 ? highest + std::log(sum) : kHiddenScore;
  };
  for_each_query(operands, tokens, attrs, attend);
}

void reference_attention_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor &q = operands[0], &k = operands[1], &v = operands[2], &out = operands[3], &lse = operands[4],
               &dout = operands[5];
  const AttentionDims z(q.type, k.type);
  const double scale = attrs.real("scale"), cap = attrs.real("softcap", 0);
  const auto go_back = [&](int64_t batch, int64_t head, int64_t i, const std::vector<SeenKey>& keys) {
    const int64_t row = z.q_at(batch, i, head);
    double delta = 0;
    for (int64_t c = 0; c < z.d; ++c) delta += dout[row + c] * out[row + c];
    for (const SeenKey& key : keys) {
      const int64_t at = z.k_at(batch, key.j, head);
      const double p = std::exp(key.score - lse[z.lse_at(batch, i, head)]);
      double dp = 0;
      for (int64_t c = 0; c < z.d; ++c) dp += dout[row + c] * v[at + c];
      const double slope = cap > 0 ? 1 - key.score / cap * (key.score / cap) : 1;
      const double ds = p * (dp - delta) * slope * scale;
      for (int64_t c = 0; c < z.d; ++c) {
        results[0][row + c] += ds * k[at + c];
        results[1][at + c] += ds * q[row + c];
        results[2][at + c] += p * dout[row + c];
      }
    }
  };
  for_each_query(operands, TokenOperands::behind(kAttentionGradOperands, attrs), attrs, go_back);
}

// ---- Samples ----

struct Case {
  std::string name;
  ir::Shape q;  // [b,s,H,d]
  int64_t kv_heads;
  ir::Attrs mask;
  bool documents = false;
  std::vector<int64_t> query_positions = {}, key_positions = {};  // empty: not placed
};

std::vector<Case> cases() {
  const ir::Attrs causal = {{"causal", int64_t{1}}};
  const ir::Attrs window = {{"causal", int64_t{1}}, {"window", int64_t{3}}};
  const ir::Attrs sparse = {{"causal", int64_t{1}},
                            {"sparse_block", int64_t{2}},
                            {"sparse_global", int64_t{1}},
                            {"sparse_local", int64_t{2}}};
  return {{.name = "causal_grouped", .q = {2, 6, 4, 8}, .kv_heads = 2, .mask = causal},
          {.name = "window_odd", .q = {1, 7, 3, 5}, .kv_heads = 1, .mask = window},
          {.name = "packed_full", .q = {2, 8, 2, 4}, .kv_heads = 2, .mask = {}, .documents = true},
          {.name = "block_sparse", .q = {1, 11, 2, 4}, .kv_heads = 1, .mask = sparse},
          {.name = "rows_that_see_nothing",
           .q = {1, 6, 2, 4},
           .kv_heads = 2,
           .mask = {{"sparse_block", int64_t{2}}, {"sparse_global", int64_t{1}}, {"window", int64_t{3}}}},
          {.name = "earlier_keys_grouped",
           .q = {2, 4, 4, 4},
           .kv_heads = 2,
           .mask = causal,
           .query_positions = {6, 7, 8, 9},
           .key_positions = {2, 3, 4, 5, 6, 7}},
          {.name = "later_keys",
           .q = {1, 3, 2, 4},
           .kv_heads = 1,
           .mask = causal,
           .query_positions = {0, 1, 2},
           .key_positions = {3, 4, 5, 6}},
          {.name = "zigzag_window_packed",
           .q = {2, 6, 2, 4},
           .kv_heads = 1,
           .mask = window,
           .documents = true,
           .query_positions = {0, 1, 9, 10, 11, 12},
           .key_positions = {2, 3, 7, 8, 9}},
          {.name = "zigzag_block_sparse",
           .q = {1, 7, 2, 4},
           .kv_heads = 2,
           .mask = sparse,
           .query_positions = {0, 1, 2, 13, 14, 15, 16},
           .key_positions = {1, 2, 3, 4, 9, 10, 11, 12, 13, 14}},
          {.name = "soft_capped",
           .q = {2, 7, 4, 4},
           .kv_heads = 2,
           .mask = {{"causal", int64_t{1}}, {"softcap", 0.4}},
           .documents = true}};
}

// Packed documents of three positions each, the last one shorter.
void fill_tokens(const Case& one, const TokenOperands& tokens, std::vector<Tensor>& operands) {
  const auto fill = [&](int64_t size, size_t segments, size_t positions, const std::vector<int64_t>& places) {
    const auto place = [&](int64_t i) { return tokens.placed ? places[static_cast<size_t>(i)] : i; };
    for (int64_t i = 0; tokens.placed && i < size; ++i) operands[positions][i] = static_cast<double>(place(i));
    for (int64_t i = 0; tokens.documents && i < operands[segments].elements(); ++i)
      operands[segments][i] = static_cast<double>(place(i % size) / 3);
  };
  fill(operands[0].type.dim(1), tokens.query_segments(), tokens.query_positions(), one.query_positions);
  fill(operands[1].type.dim(1), tokens.key_segments(), tokens.key_positions(), one.key_positions);
}

std::vector<Case> cases_with_sinks() {
  const ir::Attrs sinks = {{"causal", int64_t{1}}, {"sinks", int64_t{1}}};
  ir::Attrs capped = sinks;
  capped.set("softcap", 0.5);
  std::vector<Case> list = cases();
  list.push_back({.name = "sinks", .q = {2, 6, 4, 4}, .kv_heads = 2, .mask = sinks});
  list.push_back({.name = "sinks_of_rows_that_see_nothing",
                  .q = {1, 3, 2, 4},
                  .kv_heads = 1,
                  .mask = capped,
                  .documents = true,
                  .query_positions = {0, 1, 5},
                  .key_positions = {3, 4, 5, 6}});
  return list;
}

std::vector<Sample> samples_from(const std::vector<Case>& cases,
                                 const std::function<Types(const TensorType& q, const TensorType& k)>& operands) {
  std::vector<Sample> list;
  for (const Case& one : cases) {
    const bool placed = !one.query_positions.empty();
    const TensorType q{DType::f32, one.q};
    const int64_t keys = placed ? static_cast<int64_t>(one.key_positions.size()) : q.dim(1);
    const TensorType k{DType::f32, {q.dim(0), keys, one.kv_heads, q.dim(3)}};
    Sample sample{.name = one.name, .operands = operands(q, k)};
    sample.attrs = one.mask;
    sample.attrs.set("scale", 1.0 / std::sqrt(static_cast<double>(q.dim(3))));
    if (one.documents) sample.attrs.set("documents", int64_t{1});
    if (placed) sample.attrs.set("placed", int64_t{1});
    const TokenOperands tokens = TokenOperands::behind(sample.operands.size(), sample.attrs);
    for (TensorType& type : token_types(tokens, q, k)) sample.operands.push_back(std::move(type));
    if (one.documents || placed)
      sample.fill = [one, tokens](std::vector<Tensor>& tensors) { fill_tokens(one, tokens, tensors); };
    list.push_back(std::move(sample));
  }
  return list;
}

}  // namespace

OpDef attention_def() {
  return {
      .name = "attention",
      .doc =
          "softmax attention of q[b,s,H,d] over k, v[b,t,K,d] under a mask of positions, and its log-sum-exp [b,H,s]",
      .infer = infer_attention,
      .factors =
          [](const NodeView& view) {
            return attention_factors(view, "b s (k g) d, b t k d, b t k d", "b s (k g) d, b (k g) s");
          },
      .grad = attention_cotangents,
      .statistics_from = 1,
      .cost = [](const NodeView& view) { return attention_cost(view, 4); },
      .work = Work::attention,
      .reference = reference_attention,
      .decompose = decompose_attention,
      .partition = partition_attention,
      .looped = [](const NodeView& view) { return if_blocked(view, "blocked_attention"); },
      .temporaries = attention_temporaries,
      .samples =
          [] {
            return samples_from(cases_with_sinks(), [](const TensorType& q, const TensorType& k) {
              return Types{q, k, k};
            });
          }};
}

OpDef attention_grad_def() {
  return {.name = "attention_grad",
          .doc = "dq, dk, dv of attention from q, k, v, out, lse and dout; the weights are computed again",
          .infer = infer_attention_grad,
          .factors =
              [](const NodeView& view) {
                return attention_factors(view, "b s (k g) d, b t k d, b t k d, b s (k g) d, b (k g) s, b s (k g) d",
                                         "b s (k g) d, b t k d, b t k d");
              },
          .no_grad = "made by autodiff; second derivatives are not taken",
          .cost = [](const NodeView& view) { return attention_cost(view, 10); },
          .work = Work::attention_grad,
          .reference = reference_attention_grad,
          .decompose = decompose_attention_grad,
          .partition = partition_attention_grad,
          .looped = [](const NodeView& view) { return if_blocked(view, "blocked_attention_grad"); },
          .temporaries = attention_grad_temporaries,
          .samples =
              [] {
                return samples_from(cases(), [](const TensorType& q, const TensorType& k) {
                  return Types{q, k, k, q, lse_type(q), q};
                });
              }};
}

}  // namespace megacpp::ops
