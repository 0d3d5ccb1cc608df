// SPDX-License-Identifier: Apache-2.0
// Nodes that kernels read in vectors, several to a thread, and spread over several blocks, which the samples of the ops
// are too small for: long rows, rows of a table with many places, reductions in parts, walks of several tiles, with
// ends that fill none.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/tensor_core_cases.h"
#include "tests/support/conformance_cases.h"

namespace megacpp::testing_support {

/// A third of the places have one row; the others are spread over a table whose ids have more than one digit of a sort.
inline ops::Sample crowded_scatter_sample(std::string name, ir::DType dtype, int64_t width, int64_t rows = 700) {
  const int64_t places = 3000;
  return {.name = std::move(name),
          .operands = {i32({places}), {dtype, {places, width}}},
          .attrs = {{"shape", ir::Shape{rows, width}}},
          .fill = [rows](std::vector<ops::Tensor>& operands) {
            for (int64_t i = 0; i < operands[0].elements(); ++i)
              operands[0][i] = static_cast<double>(i % 3 == 0 ? 5 : i % 5 == 0 ? rows : i * i % rows);
          }};
}

inline ops::Sample long_reduce_sample(std::string name, ir::TensorType type, std::vector<int64_t> dims,
                                      std::string kind) {
  return {.name = std::move(name),
          .operands = {std::move(type)},
          .attrs = {{"dims", std::move(dims)}, {"kind", std::move(kind)}}};
}

/// x, w, and for the gradient rstd and dy.
inline ops::Sample long_norm_sample(std::string name, ir::Shape shape, bool is_gradient) {
  const ir::TensorType x = bf16(shape);
  ops::Sample sample{.name = std::move(name), .operands = {x, bf16({shape[1]})}, .attrs = {{"eps", 1e-5}}};
  if (is_gradient) {
    sample.operands.push_back(f32({shape[0], 1}));
    sample.operands.push_back(x);
  }
  return sample;
}

inline ops::Sample long_walk_sample(std::string name, ops::Types operands, ir::Attrs attrs) {
  return {.name = std::move(name), .operands = std::move(operands), .attrs = std::move(attrs)};
}

/// A bf16 side with many elements to a row and a few columns in f32, or with sums over rows.
inline ops::Sample narrow_dot_sample(std::string name, ops::Types operands, std::vector<int64_t> lhs_contract,
                                     std::vector<int64_t> rhs_contract) {
  const std::vector<int64_t> none;
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {{"lhs_contract", std::move(lhs_contract)},
                    {"rhs_contract", std::move(rhs_contract)},
                    {"lhs_batch", none},
                    {"rhs_batch", none}}};
}

/// Logits, labels of which every fourth masks its row, and for the gradient what it reads of each row.
inline ops::Sample long_loss_sample(std::string name, ir::TensorType logits, bool is_gradient) {
  const ir::Shape rows = {logits.shape[0]};
  const double width = static_cast<double>(logits.shape[1]);
  ops::Sample sample{.name = std::move(name), .operands = {std::move(logits), i32(rows)}, .low = -3.0, .high = 3.0};
  if (is_gradient) sample.operands.resize(5, f32(rows));
  sample.fill = [width](std::vector<ops::Tensor>& operands) {
    for (int64_t row = 0; row < operands[1].elements(); ++row)
      operands[1][row] = row % 4 == 1 ? -1.0 : width - 1.0 - static_cast<double>(row);
  };
  return sample;
}

/// Rows of more vectors than a block has threads, and rows that no vector divides; gradients in either dtype.
inline std::vector<ConformanceCase> long_loss_cases(double float_tolerance) {
  std::vector<ConformanceCase> cases;
  for (const ir::TensorType& logits : {bf16({7, 4104}), f32({7, 4104}), bf16({7, 4099}), f32({7, 4099})}) {
    const std::string name = std::string(ir::dtype_name(logits.dtype)) + "_" + std::to_string(logits.shape[1]);
    cases.push_back({&ops::op_def("cross_entropy"), long_loss_sample(name, logits, false), float_tolerance});
    for (const std::string result : {"f32", "bf16"}) {
      ops::Sample sample = long_loss_sample(name + "_to_" + result, logits, true);
      sample.attrs.set("dtype", result);
      const double tolerance = result == "f32" ? float_tolerance : kTensorCoreTolerance;
      cases.push_back({&ops::op_def("cross_entropy_grad"), std::move(sample), tolerance});
    }
  }
  return cases;
}

inline std::vector<ConformanceCase> vector_cases() {
  constexpr double kFloatTolerance = 1e-4;
  std::vector<ConformanceCase> cases;
  const auto add = [&](const char* op, ops::Sample sample) {
    const bool is_float = sample.operands.back().dtype == ir::DType::f32;
    cases.push_back({&ops::op_def(op), std::move(sample), is_float ? kFloatTolerance : kTensorCoreTolerance});
  };
  add("scatter_add", crowded_scatter_sample("crowded", ir::DType::f32, 20));
  add("scatter_add", crowded_scatter_sample("crowded_bf16", ir::DType::bf16, 24));
  add("scatter_add", crowded_scatter_sample("crowded_odd", ir::DType::f32, 7));
  // The index past the last row has a digit more than those of rows.
  add("scatter_add", crowded_scatter_sample("crowded_digit", ir::DType::f32, 20, 256));
  for (const std::string kind : {"sum", "max"}) {
    add("reduce", long_reduce_sample("columns_" + kind, bf16({3000, 24}), {0}, kind));
    add("reduce", long_reduce_sample("columns_odd_" + kind, f32({3000, 11}), {0}, kind));
    add("reduce", long_reduce_sample("rows_" + kind, bf16({600, 5, 16}), {0, 2}, kind));
    add("reduce", long_reduce_sample("rows_odd_" + kind, f32({600, 5, 13}), {0, 2}, kind));
  }
  for (const bool is_gradient : {false, true}) {
    const char* const op = is_gradient ? "rms_norm_grad" : "rms_norm";
    add(op, long_norm_sample("row_of_a_warp", {41, 2048}, is_gradient));
    add(op, long_norm_sample("row_of_two_warps", {41, 4096}, is_gradient));
    add(op, long_norm_sample("row_of_a_block", {5, 16384}, is_gradient));
  }
  for (const int64_t columns : {5, 8, 16}) {
    const std::string name = "narrow_" + std::to_string(columns);
    const ir::TensorType x = bf16({2, 150, 264}), y = f32({2, 150, columns}), w = f32({264, columns});
    add("mixed_dot", narrow_dot_sample(name + "_rows", {x, w}, {2}, {0}));
    add("mixed_dot", narrow_dot_sample(name + "_sums", {x, y}, {0, 1}, {0, 1}));
    add("dot", narrow_dot_sample(name + "_spread", {y, w, x}, {2}, {1}));
  }
  const ir::TensorType walk = bf16({2, 150, 24}), odd = f32({2, 150, 7});
  for (const int64_t reverse : {0, 1}) {
    const std::string name = reverse != 0 ? "long_reverse" : "long";
    add("causal_conv", long_walk_sample(name, {walk, bf16({24, 4})}, {{"reverse", reverse}}));
    add("causal_conv_grad", long_walk_sample(name, {walk, walk, bf16({24, 4})}, {{"reverse", reverse}}));
    add("causal_conv_grad", long_walk_sample(name + "_odd", {odd, odd, f32({7, 3})}, {{"reverse", reverse}}));
    add("causal_conv_weight", long_walk_sample(name, {walk, walk}, {{"reverse", reverse}, {"width", int64_t{4}}}));
    add("linear_recurrence", long_walk_sample(name, {walk, walk}, {{"reverse", reverse}}));
  }
  add("rg_lru", long_walk_sample("long", {walk, walk, walk, bf16({24})}, {}));
  add("rg_lru", long_walk_sample("long_odd", {odd, odd, odd, f32({7})}, {}));
  add("rg_lru_grad", long_walk_sample("long", {walk, walk, walk, bf16({24}), walk, walk}, {}));
  for (ConformanceCase& loss : long_loss_cases(kFloatTolerance)) cases.push_back(std::move(loss));
  add("transpose", long_walk_sample("vectors", {bf16({3, 72, 200})}, {{"permutation", std::vector<int64_t>{0, 2, 1}}}));
  return cases;
}

}  // namespace megacpp::testing_support
