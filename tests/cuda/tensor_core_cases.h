// SPDX-License-Identifier: Apache-2.0
// Nodes in bf16 that are large enough for the kernels of tensor cores, which the samples of the ops are not: head
// widths of attention and sizes of states that these kernels are made for, several tiles, ends that fill none.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/program/ops/attention_mask.h"
#include "megacpp/program/ops/expert_rows.h"
#include "tests/support/conformance_cases.h"

namespace megacpp::testing_support {

inline constexpr double kTensorCoreTolerance = 2e-2;  // relative, as of all bf16

inline ir::TensorType bf16(ir::Shape shape) { return {ir::DType::bf16, std::move(shape)}; }
inline ir::TensorType f32(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }
inline ir::TensorType i32(ir::Shape shape) { return {ir::DType::i32, std::move(shape)}; }

struct WideAttention {
  std::string name;
  ir::Shape q;  // [b,s,H,d]
  int64_t kv_heads;
  ir::Attrs mask;
  int64_t document = 0;  // tokens of each; 0: one
};

inline std::vector<WideAttention> wide_attention() {
  const ir::Attrs causal = {{"causal", int64_t{1}}};
  const ir::Attrs window = {{"causal", int64_t{1}}, {"window", int64_t{100}}};
  const ir::Attrs sparse = {{"causal", int64_t{1}},
                            {"sparse_block", int64_t{32}},
                            {"sparse_global", int64_t{1}},
                            {"sparse_local", int64_t{2}}};
  return {{.name = "causal_64", .q = {2, 300, 4, 64}, .kv_heads = 2, .mask = causal},
          {.name = "causal_128", .q = {1, 300, 4, 128}, .kv_heads = 1, .mask = causal},
          {.name = "full_64", .q = {1, 200, 2, 64}, .kv_heads = 2, .mask = {}},
          {.name = "window_64", .q = {1, 400, 2, 64}, .kv_heads = 1, .mask = window},
          {.name = "window_128", .q = {1, 300, 2, 128}, .kv_heads = 2, .mask = window},
          {.name = "sparse_64", .q = {1, 300, 2, 64}, .kv_heads = 1, .mask = sparse},
          {.name = "documents_64", .q = {2, 300, 2, 64}, .kv_heads = 2, .mask = causal, .document = 70},
          {.name = "documents_128", .q = {1, 260, 2, 128}, .kv_heads = 1, .mask = causal, .document = 70}};
}

inline ops::Sample wide_attention_sample(const WideAttention& one, bool is_gradient) {
  const ir::TensorType q = bf16(one.q), k = bf16({one.q[0], one.q[1], one.kv_heads, one.q[3]});
  ops::Sample sample{.name = one.name, .operands = {q, k, k}, .attrs = one.mask};
  sample.attrs.set("scale", 1.0 / std::sqrt(static_cast<double>(one.q[3])));
  if (is_gradient)
    for (const ir::TensorType& type : {q, f32({one.q[0], one.q[2], one.q[1]}), q}) sample.operands.push_back(type);
  // The log of the sum of as many weights: the weights of a row then sum to about 1.
  const size_t lse = 4, segments = sample.operands.size();
  if (one.document > 0) {
    sample.attrs.set("documents", int64_t{1});
    for (int i = 0; i < 2; ++i) sample.operands.push_back(i32({one.q[0], one.q[1]}));
  }
  const double keys = static_cast<double>(one.document > 0 ? one.document : one.q[1]);
  sample.fill = [=, tokens = one.q[1], document = one.document](std::vector<ops::Tensor>& operands) {
    if (is_gradient)
      for (int64_t i = 0; i < operands[lse].elements(); ++i) operands[lse][i] += std::log(keys);
    for (size_t at = segments; at < operands.size(); ++at)
      for (int64_t i = 0; i < operands[at].elements(); ++i)
        operands[at][i] = static_cast<double>(i % tokens / document);
  };
  return sample;
}

/// Heads of width 64 with 128 states, as the kernel has them; steps above 0 and rates below.
inline ops::Sample wide_ssd_sample(std::string name, const ir::Shape& sizes, bool is_gradient) {
  const int64_t batch = sizes[0], tokens = sizes[1], heads = sizes[2], groups = sizes[3];
  const ir::TensorType x = bf16({batch, tokens, heads, 64}), states = bf16({batch, tokens, groups, 128});
  ops::Sample sample{.name = std::move(name),
                     .operands = {x, f32({batch, tokens, heads}), f32({heads}), states, states},
                     .attrs = {{"chunk", int64_t{64}}}};
  if (is_gradient) sample.operands.push_back(x);
  sample.fill = [](std::vector<ops::Tensor>& operands) {
    for (double& step : operands[1].data) step = 0.05 + 0.1 * std::abs(step);
    for (double& rate : operands[2].data) rate = -0.5 - std::abs(rate);
  };
  return sample;
}

// Rows of four experts in use, one of them without any, and ends that fill neither a segment nor a tile.
inline std::vector<double> wide_counts() { return {130, 0, 257, 64}; }

inline ops::Sample wide_experts_sample(std::string name, ops::Types operands, int64_t transpose_w) {
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {{"transpose_w", transpose_w}},
          .fill = [](std::vector<ops::Tensor>& all) {
            const std::vector<double> counts = wide_counts();
            for (int64_t i = 0; i < all[2].elements(); ++i) all[2][i] = counts[static_cast<size_t>(i % 4)];
          }};
}

/// Zeros in the rows that no expert has, as experts' products leave them.
inline void clear_unused_rows(ops::Tensor& rows) {
  const std::vector<double> counts = wide_counts();
  const bool packed = ops::is_packed(rows.type);
  const int64_t in_group = rows.type.dim(-2), width = rows.type.dim(-1);
  for (int64_t i = 0; i < rows.elements(); ++i) {
    const int64_t row = i / width % in_group, group = i / width / in_group % 4;
    const double used = packed ? 130 + 257 + 64 : counts[static_cast<size_t>(group)];
    if (static_cast<double>(row) >= used) rows[i] = 0;
  }
}

/// Experts' rows of width `k` with `f` inside: for `ragged_swiglu`, or for `ragged_swiglu_grad`.
inline ops::Sample wide_swiglu_sample(std::string name, ir::Shape rows, int64_t k, int64_t f, bool is_gradient,
                                      int64_t flag) {
  const auto of_width = [&rows](int64_t width) {
    ir::Shape shape = rows;
    shape.push_back(width);
    return bf16(shape);
  };
  const ir::TensorType counts = i32({rows[0], rows[1], 4}), w = bf16({4, k, f});
  ops::Sample sample{
      .name = std::move(name), .operands = {of_width(k), w, w, counts}, .attrs = {{"keep_products", flag}}};
  if (is_gradient) {
    sample.operands = {of_width(k), bf16({4, f, k}), counts, of_width(f), of_width(f)};
    sample.attrs = {{"make_h", flag}};
  }
  sample.fill = [is_gradient](std::vector<ops::Tensor>& operands) {
    ops::Tensor& used = operands[is_gradient ? 2 : 3];
    for (int64_t i = 0; i < used.elements(); ++i) used[i] = wide_counts()[static_cast<size_t>(i % 4)];
    if (!is_gradient) return;
    for (size_t i = 3; i < 5; ++i) clear_unused_rows(operands[i]);
  };
  return sample;
}

// Packed rows and rows in places of their own; a contraction that ends inside a stage; widths of one tile, of one and a
// half, of several, and of so many that a block has more than one, whose stages follow an epilogue's.
inline std::vector<ConformanceCase> swiglu_cases() {
  std::vector<ConformanceCase> cases;
  const ir::Shape packed = {2, 1, 512}, placed = {1, 2, 4, 260};
  for (const bool is_gradient : {false, true}) {
    const ops::OpDef& op = ops::op_def(is_gradient ? "ragged_swiglu_grad" : "ragged_swiglu");
    const auto add = [&](const char* name, const ir::Shape& rows, int64_t k, int64_t f, int64_t flag) {
      cases.push_back({&op, wide_swiglu_sample(name, rows, k, f, is_gradient, flag), kTensorCoreTolerance});
    };
    add("one_tile", packed, 136, 128, 1);
    add("tile_and_a_half", packed, 136, 384, 1);
    add("fewer_results", packed, 72, 256, 0);
    add("several_tiles", packed, 128, 768, 1);
    add("places", placed, 136, 384, 1);
    add("several_tiles_a_block", packed, is_gradient ? 200 : 520, is_gradient ? 3072 : 1536, 1);
  }
  return cases;
}

inline std::vector<ConformanceCase> tensor_core_cases() {
  std::vector<ConformanceCase> cases;
  const auto add = [&](const char* op, ops::Sample sample) {
    cases.push_back({&ops::op_def(op), std::move(sample), kTensorCoreTolerance});
  };
  for (const WideAttention& one : wide_attention()) {
    add("attention", wide_attention_sample(one, false));
    add("attention_grad", wide_attention_sample(one, true));
  }
  for (const bool is_gradient : {false, true}) {
    const char* const op = is_gradient ? "ssd_grad" : "ssd";
    add(op, wide_ssd_sample("whole_chunks", {2, 128, 2, 1}, is_gradient));
    add(op, wide_ssd_sample("ragged_end", {1, 150, 4, 2}, is_gradient));
  }
  const ir::TensorType counts = i32({2, 1, 4}), rows = bf16({2, 1, 512, 136}), wider = bf16({2, 1, 512, 200});
  add("ragged_dot", wide_experts_sample("packed", {rows, bf16({4, 136, 200}), counts}, 0));
  add("ragged_dot", wide_experts_sample("packed_transposed", {rows, bf16({4, 200, 136}), counts}, 1));
  add("ragged_dot", wide_experts_sample("accumulated", {rows, bf16({4, 136, 200}), counts, wider}, 0));
  add("ragged_dot", wide_experts_sample("accumulated_transposed", {rows, bf16({4, 200, 136}), counts, wider}, 1));
  const ir::TensorType many = bf16({2, 1, 512, 3328}), deep = bf16({2, 1, 512, 200});
  add("ragged_dot", wide_experts_sample("several_tiles_a_block", {deep, bf16({4, 3328, 200}), counts, many}, 1));
  add("ragged_dot_weight", wide_experts_sample("packed", {rows, wider, counts}, 0));
  ops::Sample wide_sums = wide_experts_sample("packed_to_f32", {rows, wider, counts}, 0);
  wide_sums.attrs.set("dtype", std::string("f32"));
  add("ragged_dot_weight", std::move(wide_sums));
  add("ragged_dot_weight", wide_experts_sample("accumulated", {rows, wider, counts, f32({4, 136, 200})}, 0));
  add("ragged_dot_weight", wide_experts_sample("accumulated_bf16", {rows, wider, counts, bf16({4, 136, 200})}, 0));
  const ir::TensorType tall = bf16({2, 1, 512, 1032}), broad = bf16({2, 1, 512, 1000});
  add("ragged_dot_weight",
      wide_experts_sample("several_tiles_a_block", {tall, broad, counts, f32({4, 1032, 1000})}, 0));
  for (ConformanceCase& joined : swiglu_cases()) cases.push_back(std::move(joined));
  return cases;
}

}  // namespace megacpp::testing_support
