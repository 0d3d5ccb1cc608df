// SPDX-License-Identifier: Apache-2.0
// The contract of the op table: every record whole, every gradient equal to finite differences, every decomposition
// equal to its reference, every factor right (a sample split in two along it and put together again gives the same
// results). Collectives have no meaning on one chip: spmd_evaluator_test checks theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/sample_values.h"
#include "tests/support/sample_cases.h"

namespace megacpp::ops {
namespace {

struct Case {
  const OpDef* op;
  Sample sample;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op->name << "/" << c.sample.name; }

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const OpDef& op : all_ops())
    for (const Sample& sample : op.samples()) cases.push_back({&op, sample});
  return cases;
}

double largest(const Tensor& tensor) {
  double value = 1e-6;
  for (const double element : tensor.data) value = std::max(value, std::fabs(element));
  return value;
}

void expect_close(const Tensor& got, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(to_string(got.type), to_string(wanted.type)) << what;
  const double scale = largest(wanted);
  for (int64_t i = 0; i < wanted.elements(); ++i)
    ASSERT_NEAR(got[i], wanted[i], tolerance * scale) << what << " element " << i;
}

TEST(OpTableTest, EveryRecordIsWhole) {
  std::set<std::string> names;
  for (const OpDef& op : all_ops()) {
    SCOPED_TRACE(op.name);
    EXPECT_TRUE(names.insert(op.name).second) << "listed twice";
    EXPECT_FALSE(op.doc.empty());
    EXPECT_TRUE(op.infer && op.factors && op.cost && op.samples);
    EXPECT_NE(static_cast<bool>(op.reference), op.is_collective) << "what one chip computes, unless it takes several";
    EXPECT_NE(static_cast<bool>(op.grad), !op.no_grad.empty()) << "a gradient or the reason why none, never both";
    EXPECT_FALSE(op.samples().empty());
    for (const ConstantOperand& constant : op.constant_operands) {
      EXPECT_TRUE(op.grad) << "there is no gradient to leave it out of";
      EXPECT_FALSE(constant.reason.empty());
    }
  }
}

TEST(OpTableTest, EveryCollectiveSaysWhatItMovesOrStaysOnItsChip) {
  std::set<std::string> stays;
  for (const OpDef& op : all_ops()) {
    SCOPED_TRACE(op.name);
    if (!op.transfer) {
      if (op.is_collective) stays.insert(op.name);
      continue;
    }
    EXPECT_TRUE(op.is_collective);
    ASSERT_TRUE(op.transfer->sent_bytes != nullptr);
    EXPECT_EQ(op.transfer->bucket_key != nullptr, op.transfer->is_of_group());
    EXPECT_TRUE(op.transfer->is_of_group() || op.transfer->joins == Transfer::Joins::never);
  }
  // A start is what it starts; a done only waits for it.
  EXPECT_EQ(stays, (std::set<std::string>{"collective_done", "collective_start", "shard_index", "shard_slice"}));
}

// XLA gets primitives, before our own scheduling and without a pipeline; inputs are arguments.
TEST(OpTableTest, EveryPrimitiveThatXlaMayMeetHasAStableHloForm) {
  std::set<std::string> without, looped;
  for (const OpDef& op : all_ops()) {
    if (op.stablehlo && op.is_composite()) looped.insert(op.name);
    const bool is_looped = op.stablehlo && op.is_composite();
    EXPECT_EQ(static_cast<bool>(op.temporaries), is_looped || op.looped) << op.name;
    if (!op.stablehlo && !op.is_composite()) without.insert(op.name);
  }
  EXPECT_EQ(looped, (std::set<std::string>{"blocked_attention", "blocked_attention_grad"}))
      << "of other composites the decomposition is written";
  EXPECT_EQ(without, (std::set<std::string>{"collective_done", "collective_start", "copy_done", "copy_start",
                                            "exchange_sum", "fused", "input", "recv", "send"}));
}

bool has_only_elements_of_operand(const OpDef& op, const Sample& sample) {
  std::vector<Tensor> operands = sample_operands(op, sample);
  if (operands.size() != 1) return false;
  std::vector<Tensor> results = evaluate_op(op.name, operands, sample.attrs, Rounding::none);
  if (results.size() != 1) return false;
  std::ranges::sort(operands[0].data);
  std::ranges::sort(results[0].data);
  return std::ranges::includes(operands[0].data, results[0].data);
}

TEST(OpTableTest, WhatHasTheElementsOfItsOperandSaysSoAndNothingElse) {
  for (const OpDef& op : all_ops()) {
    const bool moves = op.is_collective || op.is_tier_copy || op.name == "reshard";
    const bool has_them = !moves && std::ranges::all_of(op.samples(), [&](const Sample& sample) {
      return has_only_elements_of_operand(op, sample);
    });
    EXPECT_EQ(op.has_operand_elements, has_them) << op.name;
  }
}

// Of these a fusion that reads them would go through the run again: nothing else in the table tells them apart.
TEST(OpTableTest, PrimitivesThatRunOverPositionsAreConvolutionsAndRecurrences) {
  std::set<std::string> runs;
  for (const OpDef& op : all_ops()) {
    if (!op.runs_over_positions) continue;
    runs.insert(op.name);
    EXPECT_FALSE(op.is_composite()) << op.name << ": its primitives say so";
    EXPECT_EQ(op.work, Work::traffic) << op.name << ": other work costs anyway";
  }
  EXPECT_EQ(runs, (std::set<std::string>{"causal_conv", "linear_recurrence"}));
}

class OpSampleTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Ops, OpSampleTest, testing::ValuesIn(all_cases()), testing_support::sample_case_name<Case>);

TEST_P(OpSampleTest, CostIsFiniteAndNotNegative) {
  const auto& [op, sample] = GetParam();
  const Types results = op->infer(sample.operands, sample.attrs);
  const Cost cost = op->cost({sample.operands, results, sample.attrs});
  EXPECT_GE(cost.flops, 0.0);
  EXPECT_TRUE(std::isfinite(cost.flops));
}

TEST_P(OpSampleTest, AViewIsItsOperandsBytes) {
  const auto& [op, sample] = GetParam();
  if (!op->is_view) return;
  const Types results = op->infer(sample.operands, sample.attrs);
  ASSERT_EQ(results.size(), sample.operands.size());
  for (size_t r = 0; r < results.size(); ++r) EXPECT_EQ(results[r].bytes(), sample.operands[r].bytes());
}

TEST_P(OpSampleTest, WhatKeepsTheOrderKeepsIt) {
  const auto& [op, sample] = GetParam();
  if (!op->keeps_order || op->is_collective) return;  // collectives: spmd_evaluator_test
  std::vector<Tensor> operands = sample_operands(*op, sample);
  ASSERT_EQ(operands.size(), 1u);
  constexpr double kFirst = 1000;  // no constant that an op adds
  for (int64_t i = 0; i < operands[0].elements(); ++i) operands[0][i] = kFirst + static_cast<double>(i);
  double last = 0;
  const std::vector<Tensor> results = evaluate_op(op->name, operands, sample.attrs, Rounding::none);
  for (const double element : results[0].data) {
    if (element < kFirst) continue;
    EXPECT_GT(element, last);
    last = element;
  }
}

// A conversion to f32 before such an operand may be left out.
TEST_P(OpSampleTest, AnOperandThatIsWidenedGivesTheSameBitsInBf16) {
  const auto& [op, sample] = GetParam();
  if (op->widens_operand < 0) return;
  std::vector<Tensor> operands = sample_operands(*op, sample);
  Tensor& widened = operands.at(static_cast<size_t>(op->widens_operand));
  for (double& element : widened.data) element = ir::rounded(ir::DType::bf16, element);
  ir::Attrs attrs = sample.attrs;
  if (op->chooses_result_dtype) attrs.set("dtype", std::string("f32"));
  widened.type.dtype = ir::DType::f32;
  const std::vector<Tensor> wanted = evaluate_op(op->name, operands, attrs);
  widened.type.dtype = ir::DType::bf16;
  const std::vector<Tensor> got = evaluate_op(op->name, operands, attrs);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t r = 0; r < wanted.size(); ++r) expect_close(got[r], wanted[r], 0.0, "result " + std::to_string(r));
}

TEST_P(OpSampleTest, FiniteOperandsGiveFiniteResults) {
  const auto& [op, sample] = GetParam();
  if (op->is_collective) return;
  const std::vector<Tensor> results = evaluate_op(op->name, sample_operands(*op, sample), sample.attrs, Rounding::none);
  for (const Tensor& result : results)
    for (int64_t i = 0; i < result.elements(); ++i) EXPECT_TRUE(std::isfinite(result[i])) << "element " << i;
}

// ---- decomposition ----

TEST_P(OpSampleTest, DecompositionEqualsReference) {
  const auto& [op, sample] = GetParam();
  if (!op->is_composite()) return;
  const std::vector<Tensor> operands = sample_operands(*op, sample);
  ir::Graph graph(op->name);
  Builder builder(graph);
  std::vector<ir::ValueId> ids;
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    ids.push_back(builder.input(name, operands[i].type, ir::Role::activation));
    inputs[name] = operands[i];
  }
  const std::vector<ir::ValueId> results = op->decompose(builder, ids, sample.attrs);
  for (size_t i = 0; i < results.size(); ++i) graph.add_output({.name = std::to_string(i), .value = results[i]});
  for (const ir::Node& node : graph.nodes())
    EXPECT_FALSE(op_def(node.op).is_composite()) << "decomposes into the composite " << node.op;
  const auto got = evaluate(graph, inputs, Rounding::none);
  const auto wanted = evaluate_op(op->name, operands, sample.attrs, Rounding::none);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    expect_close(got.at(std::to_string(i)), wanted[i], 1e-9, "result " + std::to_string(i));
}

// ---- gradient ----

double weighted_sum(const std::vector<Tensor>& results, const std::vector<Tensor>& weights) {
  double sum = 0;
  for (size_t r = 0; r < results.size(); ++r)
    for (int64_t i = 0; i < weights[r].elements(); ++i) sum += results[r][i] * weights[r][i];
  return sum;
}

// Which results the gradient answers for: neither integers nor statistics.
std::vector<Tensor> cotangent_weights(const OpDef& op, const std::vector<Tensor>& results) {
  std::vector<Tensor> weights;
  for (size_t r = 0; r < results.size(); ++r) {
    Tensor weight = Tensor::zeros(results[r].type);
    if (ir::is_float(weight.type.dtype) && r < op.statistics_from) {
      const base::Philox random(3, "weights" + std::to_string(r));
      for (int64_t i = 0; i < weight.elements(); ++i) weight[i] = random.uniform(static_cast<uint64_t>(i)) - 0.3;
      weights.push_back(weight);
    } else {
      weight.data.clear();
      weights.push_back(weight);
    }
  }
  return weights;
}

bool is_constant(const OpDef& op, size_t operand) {
  return std::ranges::any_of(op.constant_operands, [&](const ConstantOperand& c) { return c.operand == operand; });
}

// d(weighted sum of the results) / d(operand), element by element.
Tensor finite_differences(const Case& c, std::vector<Tensor> operands, size_t operand,
                          const std::vector<Tensor>& weights) {
  constexpr double kStep = 1e-5;
  const auto sum_with = [&](int64_t element, double value) {
    const double saved = std::exchange(operands[operand][element], value);
    const double sum = weighted_sum(evaluate_op(c.op->name, operands, c.sample.attrs, Rounding::none), weights);
    operands[operand][element] = saved;
    return sum;
  };
  Tensor differences = Tensor::zeros(operands[operand].type);
  for (int64_t e = 0; e < differences.elements(); ++e) {
    const double at = operands[operand][e];
    differences[e] = (sum_with(e, at + kStep) - sum_with(e, at - kStep)) / (2 * kStep);
  }
  return differences;
}

// Each side by itself: an operand that is only compared with zero moves the results as much above as below it.
void expect_no_influence(const Case& c, std::vector<Tensor> operands, size_t operand,
                         const std::vector<Tensor>& weights) {
  constexpr double kStep = 1e-5;
  const auto sum = [&] {
    return weighted_sum(evaluate_op(c.op->name, operands, c.sample.attrs, Rounding::none), weights);
  };
  const double before = sum();
  for (int64_t e = 0; e < operands[operand].elements(); ++e)
    for (const double step : {kStep, -kStep}) {
      const double saved = std::exchange(operands[operand][e], operands[operand][e] + step);
      EXPECT_EQ(sum(), before) << "the gradient forgets it: element " << e << " moved by " << step;
      operands[operand][e] = saved;
    }
}

// Of every real operand: where the rule gives no gradient, the results must not depend on it, unless the record says
// why that does not matter.
TEST_P(OpSampleTest, GradientEqualsFiniteDifferences) {
  const auto& [op, sample] = GetParam();
  if (!op->grad) return;
  const std::vector<Tensor> operands = sample_operands(*op, sample);
  const std::vector<Tensor> results = evaluate_op(op->name, operands, sample.attrs, Rounding::none);
  const std::vector<Tensor> weights = cotangent_weights(*op, results);

  ir::Graph graph(op->name);
  Builder builder(graph);
  std::vector<ir::ValueId> ids;
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    inputs["x" + std::to_string(i)] = operands[i];
    ids.push_back(builder.input("x" + std::to_string(i), operands[i].type, ir::Role::activation));
  }
  const std::vector<ir::ValueId> outs = builder.node(op->name, ids, sample.attrs);
  Cotangents cotangents;
  for (size_t r = 0; r < outs.size(); ++r) {
    if (weights[r].data.empty() && results[r].elements() > 0) {
      cotangents.push_back(std::nullopt);
      continue;
    }
    inputs["w" + std::to_string(r)] = weights[r];
    cotangents.push_back(builder.input("w" + std::to_string(r), weights[r].type, ir::Role::activation));
  }
  const Cotangents gradients = op->grad({builder, ids, outs, sample.attrs, cotangents});
  ASSERT_EQ(gradients.size(), operands.size());
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i]) graph.add_output({.name = std::to_string(i), .value = *gradients[i]});
  const auto got = evaluate(graph, inputs, Rounding::none);

  for (size_t i = 0; i < operands.size(); ++i) {
    SCOPED_TRACE("operand " + std::to_string(i));
    const bool is_real = ir::is_float(operands[i].type.dtype);
    ASSERT_TRUE(is_real || !gradients[i]) << "a gradient of what is not real";
    ASSERT_FALSE(is_constant(*op, i) && gradients[i]) << "a gradient of a constant operand";
    if (!is_real || is_constant(*op, i)) continue;
    if (!gradients[i]) {
      expect_no_influence(GetParam(), operands, i, weights);
      continue;
    }
    expect_close(got.at(std::to_string(i)), finite_differences(GetParam(), operands, i, weights), 2e-5, "gradient");
  }
}

// ---- factors ----

int64_t product(const Factors& factors, const std::vector<int>& dim) {
  int64_t size = 1;
  for (const int f : dim) size *= factors.factors.at(static_cast<size_t>(f)).size;
  return size;
}

void expect_consistent(const Factors& factors, const std::vector<DimFactors>& dims, const Types& types) {
  ASSERT_EQ(dims.size(), types.size());
  for (size_t t = 0; t < types.size(); ++t) {
    ASSERT_EQ(dims[t].size(), types[t].shape.size());
    for (size_t d = 0; d < dims[t].size(); ++d) EXPECT_EQ(product(factors, dims[t][d]), types[t].shape[d]);
  }
}

struct Place {
  int64_t dim = -1;   // -1: the tensor lacks the factor
  int64_t outer = 1;  // product of the major factors in that dimension
};

Place find_factor(const Factors& factors, const DimFactors& dims, int factor) {
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t outer = 1;
    for (const int f : dims[d]) {
      if (f == factor) return {static_cast<int64_t>(d), outer};
      outer *= factors.factors[static_cast<size_t>(f)].size;
    }
  }
  return {};
}

// Half `part` of the factor at `place`: the dimension is [outer, size, inner]; the middle is halved.
Tensor half(const Tensor& whole, const Place& place, int64_t size, int64_t part) {
  if (place.dim < 0) return whole;
  Tensor result;
  result.type = whole.type;
  const int64_t full = whole.type.dim(place.dim), inner = full / place.outer / size;
  result.type.shape[static_cast<size_t>(place.dim)] = full / 2;
  for_each_index(result.type.shape, [&](ir::Shape index) {
    int64_t& at = index[static_cast<size_t>(place.dim)];
    const int64_t o = at / (size / 2 * inner), rest = at % (size / 2 * inner);
    at = (o * size + part * (size / 2)) * inner + rest;
    result.data.push_back(whole[flat_index(index, whole.type.shape)]);
  });
  return result;
}

// Slots count the rows of all experts: ops with slots are split along experts by their own partition rule, which
// renumbers them.
bool is_split_by_rule(const OpDef& op, const Factor& factor) { return op.partition && factor.name == "x"; }

TEST_P(OpSampleTest, EveryFactorSplitsAsItsKindSays) {
  const auto& [op, sample] = GetParam();
  if (op->name == "input") return;
  const Types result_types = op->infer(sample.operands, sample.attrs);
  const Factors factors = op->factors({sample.operands, result_types, sample.attrs});
  expect_consistent(factors, factors.operands, sample.operands);
  expect_consistent(factors, factors.results, result_types);
  if (op->is_collective) return;

  const std::vector<Tensor> operands = sample_operands(*op, sample);
  const std::vector<Tensor> whole = evaluate_op(op->name, operands, sample.attrs, Rounding::none);
  for (size_t f = 0; f < factors.factors.size(); ++f) {
    const Factor& factor = factors.factors[f];
    if (factor.kind == FactorKind::replicated || factor.size % 2 != 0 || is_split_by_rule(*op, factor)) continue;
    SCOPED_TRACE("factor " + factor.name);
    std::vector<std::vector<Tensor>> parts;
    for (int64_t part = 0; part < 2; ++part) {
      std::vector<Tensor> local;
      for (size_t i = 0; i < operands.size(); ++i)
        local.push_back(
            half(operands[i], find_factor(factors, factors.operands[i], static_cast<int>(f)), factor.size, part));
      ir::Attrs attrs = sample.attrs;
      if (attrs.has("shape")) {
        // For `fused` the iteration shape is the factor list itself; elsewhere it is the shape of result 0.
        ir::Shape shape = attrs.list("shape");
        const Place place = op->name == "fused" ? Place{static_cast<int64_t>(f), 1}
                                                : find_factor(factors, factors.results[0], static_cast<int>(f));
        if (place.dim >= 0) shape[static_cast<size_t>(place.dim)] /= 2;
        attrs.set("shape", shape);
      }
      parts.push_back(evaluate_op(op->name, local, attrs, Rounding::none));
    }
    for (size_t r = 0; r < whole.size(); ++r) {
      const Place place = find_factor(factors, factors.results[r], static_cast<int>(f));
      if (place.dim >= 0) {
        for (int64_t part = 0; part < 2; ++part)
          expect_close(parts[static_cast<size_t>(part)][r], half(whole[r], place, factor.size, part), 1e-9,
                       "result slice");
      } else {
        Tensor sum = parts[0][r];
        for (int64_t i = 0; i < sum.elements(); ++i) sum[i] += parts[1][r][i];
        expect_close(sum, whole[r], 1e-9, "sum of partial results");
      }
    }
  }
}

}  // namespace
}  // namespace megacpp::ops
