// SPDX-License-Identifier: Apache-2.0
// Softmax attention with grouped heads and fixed-shape masks, and its gradient from the saved log-sum-exp.
#include <algorithm>
#include <cmath>

#include "megacpp/base/error.h"
#include "megacpp/ops/attention_decompose.h"
#include "megacpp/ops/attention_mask.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::TensorType;

void check_inputs(std::string_view op, const Types& operands, const ir::Attrs& attrs) {
  for (const char* name : {"window", "sparse_block", "sparse_local", "sparse_global"})
    require_at_least(op, attrs, name, 0);
  const TensorType& q = operands[0];
  const TensorType& k = operands[1];
  require_float_rank(op, "q", q, 4);
  require_float_rank(op, "k", k, 4);
  MEGACPP_REQUIRE(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0, E1301,
                  {.where = std::string(op),
                   .got = std::to_string(q.dim(2)) + " query heads, " + std::to_string(k.dim(2)) + " key heads",
                   .wanted = "a multiple"});
  require_type(op, "k", k, {q.dtype, {q.dim(0), q.dim(1), k.dim(2), q.dim(3)}});
  require_type(op, "v", operands[2], k);
}

TensorType lse_type(const TensorType& q) { return {DType::f32, {q.dim(0), q.dim(2), q.dim(1)}}; }
TensorType segments_type(const TensorType& q) { return {DType::i32, {q.dim(0), q.dim(1)}}; }

Types infer(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 3 || operands.size() == 4, "attention", operands, "q, k, v and perhaps segments");
  check_inputs("attention", operands, attrs);
  if (operands.size() == 4) require_type("attention", "segments", operands[3], segments_type(operands[0]));
  return {operands[0], lse_type(operands[0])};
}

Types infer_grad(const Types& operands, const ir::Attrs& attrs) {
  constexpr std::string_view kOp = "attention_grad";
  require_operands(operands.size() == 6 || operands.size() == 7, kOp, operands,
                   "q, k, v, out, lse, dout and perhaps segments");
  check_inputs(kOp, operands, attrs);
  require_type(kOp, "out", operands[3], operands[0]);
  require_type(kOp, "lse", operands[4], lse_type(operands[0]));
  require_type(kOp, "dout", operands[5], operands[0]);
  if (operands.size() == 7) require_type(kOp, "segments", operands[6], segments_type(operands[0]));
  return {operands[0], operands[1], operands[2]};
}

Cotangents grad(const GradArgs& args) {
  MEGACPP_CHECK(!args.cotangents[1].has_value()) << "attention passes no gradient through lse";
  std::vector<ValueId> operands(args.operands.begin(), args.operands.begin() + 3);
  operands.insert(operands.end(), {args.results[0], args.results[1], *args.cotangents[0]});
  if (args.operands.size() == 4) operands.push_back(args.operands[3]);
  const std::vector<ValueId> grads = args.builder.node("attention_grad", operands, args.attrs);
  Cotangents cotangents(grads.begin(), grads.end());
  cotangents.resize(args.operands.size());
  return cotangents;
}

Cost cost(const NodeView& view, double flops_per_product) {
  const AttentionDims z(view.operands[0], view.operands[1]);
  const int64_t pairs = AttentionMask::from(view.attrs).visible_pairs(z.s, z.t);
  return {flops_per_product * static_cast<double>(pairs * z.b * z.heads * z.d)};
}

// ---- Reference ----

struct SeenKey {
  int64_t j;
  double score;
};

// Calls body(batch, head, i, keys) for each query, with the keys it sees and their scaled scores.
template <typename Body>
void for_each_query(const Tensor& q, const Tensor& k, const Tensor* segments, const ir::Attrs& attrs,
                    const Body& body) {
  const AttentionDims z(q.type, k.type);
  const AttentionMask mask = AttentionMask::from(attrs);
  const double scale = attrs.real("scale");
  for_each_index({z.b, z.heads, z.s}, [&](const ir::Shape& at) {
    std::vector<SeenKey> keys;
    for (int64_t j = 0; j < z.t; ++j) {
      if (!mask.visible(at[2], j)) continue;
      if (segments != nullptr && (*segments)[at[0] * z.s + at[2]] != (*segments)[at[0] * z.s + j]) continue;
      double score = 0;
      for (int64_t c = 0; c < z.d; ++c) score += q[z.q_at(at[0], at[2], at[1]) + c] * k[z.k_at(at[0], j, at[1]) + c];
      keys.push_back({j, score * scale});
    }
    body(at[0], at[1], at[2], keys);
  });
}

void reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& v = operands[2];
  const AttentionDims z(operands[0].type, operands[1].type);
  const Tensor* segments = operands.size() == 4 ? &operands[3] : nullptr;
  const auto attend = [&](int64_t batch, int64_t head, int64_t i, const std::vector<SeenKey>& keys) {
    double highest = kHiddenScore, sum = 0;
    for (const SeenKey& key : keys) highest = std::max(highest, key.score);
    for (const SeenKey& key : keys) sum += std::exp(key.score - highest);
    for (const SeenKey& key : keys)
      for (int64_t c = 0; c < z.d; ++c)
        results[0][z.q_at(batch, i, head) + c] +=
            std::exp(key.score - highest) / sum * v[z.k_at(batch, key.j, head) + c];
    results[1][z.lse_at(batch, i, head)] = keys.empty() ? kHiddenScore : highest + std::log(sum);
  };
  for_each_query(operands[0], operands[1], segments, attrs, attend);
}

void reference_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor &q = operands[0], &k = operands[1], &v = operands[2], &out = operands[3], &lse = operands[4],
               &dout = operands[5];
  const AttentionDims z(q.type, k.type);
  const double scale = attrs.real("scale");
  const auto go_back = [&](int64_t batch, int64_t head, int64_t i, const std::vector<SeenKey>& keys) {
    const int64_t row = z.q_at(batch, i, head);
    double delta = 0;
    for (int64_t c = 0; c < z.d; ++c) delta += dout[row + c] * out[row + c];
    for (const SeenKey& key : keys) {
      const int64_t at = z.k_at(batch, key.j, head);
      const double p = std::exp(key.score - lse[z.lse_at(batch, i, head)]);
      double dp = 0;
      for (int64_t c = 0; c < z.d; ++c) dp += dout[row + c] * v[at + c];
      const double ds = p * (dp - delta) * scale;
      for (int64_t c = 0; c < z.d; ++c) {
        results[0][row + c] += ds * k[at + c];
        results[1][at + c] += ds * q[row + c];
        results[2][at + c] += p * dout[row + c];
      }
    }
  };
  for_each_query(q, k, operands.size() == 7 ? &operands[6] : nullptr, attrs, go_back);
}

// ---- Samples ----

// Packed documents of three positions each, the last one shorter.
void fill_segments(Tensor& segments) {
  for (int64_t i = 0; i < segments.elements(); ++i) segments[i] = static_cast<double>(i % segments.type.dim(1) / 3);
}

struct Case {
  std::string name;
  ir::Shape q;  // [b,s,H,d]
  int64_t kv_heads;
  ir::Attrs mask;
  bool packed = false;
};

std::vector<Case> cases() {
  return {{.name = "causal_grouped", .q = {2, 6, 4, 8}, .kv_heads = 2, .mask = {{"causal", int64_t{1}}}},
          {.name = "window_odd",
           .q = {1, 7, 3, 5},
           .kv_heads = 1,
           .mask = {{"causal", int64_t{1}}, {"window", int64_t{3}}}},
          {.name = "packed_full", .q = {2, 8, 2, 4}, .kv_heads = 2, .mask = {}, .packed = true},
          {.name = "block_sparse",
           .q = {1, 11, 2, 4},
           .kv_heads = 1,
           .mask = {{"causal", int64_t{1}},
                    {"sparse_block", int64_t{2}},
                    {"sparse_global", int64_t{1}},
                    {"sparse_local", int64_t{2}}}},
          {.name = "rows_that_see_nothing",
           .q = {1, 6, 2, 4},
           .kv_heads = 2,
           .mask = {{"sparse_block", int64_t{2}}, {"sparse_global", int64_t{1}}, {"window", int64_t{3}}}}};
}

std::vector<Sample> samples_from(const std::function<Types(const TensorType& q, const TensorType& k)>& operands) {
  std::vector<Sample> list;
  for (const Case& one : cases()) {
    const TensorType q{DType::f32, one.q};
    Sample sample{.name = one.name,
                  .operands = operands(q, {DType::f32, {q.dim(0), q.dim(1), one.kv_heads, q.dim(3)}})};
    sample.attrs = one.mask;
    sample.attrs.set("scale", 1.0 / std::sqrt(static_cast<double>(q.dim(3))));
    if (one.packed) {
      sample.operands.push_back(segments_type(q));
      sample.fill = [](std::vector<Tensor>& tensors) { fill_segments(tensors.back()); };
    }
    list.push_back(std::move(sample));
  }
  return list;
}

}  // namespace

OpDef attention_def() {
  return {
      .name = "attention",
      .doc = "softmax attention of q[b,s,H,d] over k, v[b,t,K,d] under a fixed mask, and its log-sum-exp [b,H,s]",
      .infer = infer,
      .factors =
          [](const NodeView& view) {
            return factors_from(view, "b s (k g) d, b t k d, b t k d, b s -> b s (k g) d, b (k g) s", "s t d");
          },
      .grad = grad,
      .statistics_from = 1,
      .cost = [](const NodeView& view) { return cost(view, 4); },
      .reference = reference,
      .decompose = decompose_attention,
      .samples = [] { return samples_from([](const TensorType& q, const TensorType& k) {
                        return Types{q, k, k};
                      }); }};
}

OpDef attention_grad_def() {
  return {.name = "attention_grad",
          .doc = "dq, dk, dv of attention from q, k, v, out, lse and dout; the weights are computed again",
          .infer = infer_grad,
          .factors =
              [](const NodeView& view) {
                return factors_from(view,
                                    "b s (k g) d, b t k d, b t k d, b s (k g) d, b (k g) s, b s (k g) d, b s"
                                    " -> b s (k g) d, b t k d, b t k d",
                                    "s t d");
              },
          .no_grad = "made by autodiff; second derivatives are not taken",
          .cost = [](const NodeView& view) { return cost(view, 10); },
          .reference = reference_grad,
          .decompose = decompose_attention_grad,
          .samples =
              [] {
                return samples_from(
                    [](const TensorType& q, const TensorType& k) { return Types{q, k, k, q, lse_type(q), q}; });
              }};
}

}  // namespace megacpp::ops
