// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/emit/attention_cudnn.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/program/emit/custom_call.h"

namespace megacpp::emit {
namespace {

using ir::DType;
using ops::HloType;
using ops::HloValue;
using ops::Types;

const ir::Attrs kCausal = {{"causal", int64_t{1}}, {"scale", 0.125}};

ir::Attrs with(const char* name, int64_t value) {
  ir::Attrs attrs = kCausal;
  attrs.set(name, value);
  return attrs;
}

Types operands_of(DType dtype, int64_t tokens, int64_t head) {
  const ir::TensorType q{dtype, {2, tokens, 4, head}}, k{dtype, {2, tokens, 2, head}};
  return {q, k, k};
}

base::Decision decision(const Types& operands, const ir::Attrs& attrs) {
  const Types results = {operands[0]};
  return fits_cudnn_attention({operands, results, attrs});
}

TEST(AttentionCudnnTest, TakesCausalAndWholeAttentionInSixteenBits) {
  EXPECT_TRUE(decision(operands_of(DType::bf16, 256, 64), kCausal));
  EXPECT_TRUE(decision(operands_of(DType::bf16, 256, 128), {{"scale", 0.1}}));
}

TEST(AttentionCudnnTest, SaysWhyItLeavesTheRest) {
  const Types fits = operands_of(DType::bf16, 256, 64);
  EXPECT_EQ(decision(operands_of(DType::f32, 256, 64), kCausal).reason(), "cuDNN attends in 16 bits");
  EXPECT_EQ(decision(operands_of(DType::bf16, 256, 36), kCausal).reason(),
            "head dimension 36 is no multiple of 8 up to 128");
  EXPECT_FALSE(decision(operands_of(DType::bf16, 256, 136), kCausal));
  EXPECT_EQ(decision(operands_of(DType::bf16, 255, 64), kCausal).reason(), "255 tokens are not even");
  EXPECT_EQ(decision(fits, with("window", 16)).reason(), "its mask is more than causal");
  EXPECT_FALSE(decision(fits, with("sparse_block", 16)));
  EXPECT_EQ(decision(fits, with("documents", 1)).reason(), "tokens are not one run of one document");
  EXPECT_FALSE(decision(fits, with("placed", 1)));
}

struct WrittenCall {
  std::string text;
  base::Json configuration;
  ops::HloResults results;
};

// `op` of operands %a0, %a1, ..
WrittenCall written(const ops::OpDef& op, const Types& operands) {
  const Types types = op.infer(operands, kCausal);
  std::vector<HloValue> values;
  for (const ir::TensorType& type : operands)
    values.push_back({"%a" + std::to_string(values.size()), ops::hlo_type(type)});
  const ir::Mesh mesh;
  int64_t next_channel = 1;
  ops::HloWriter w(mesh, next_channel);
  WrittenCall result{.text = {},
                     .configuration = {},
                     .results = find_custom_call(op.name)->write(w, {values, {operands, types, kCausal}})};
  result.text = w.text();
  const std::string key = "backend_config = \"";
  const size_t begin = result.text.find(key) + key.size();
  std::string json = result.text.substr(begin, result.text.find('"', begin) - begin);
  for (size_t at; (at = json.find("\\22")) != std::string::npos;) json.replace(at, 3, "\"");
  result.configuration = base::parse_json(json, base::Code::E1008, "backend_config");
  return result;
}

TEST(AttentionCudnnTest, ResultsHaveTheTypesOfTheOp) {
  const Types operands = operands_of(DType::bf16, 256, 64);
  const WrittenCall call = written(ops::op_def("attention"), operands);
  EXPECT_NE(call.text.find("__cudnn$fmhaSoftmax\""), std::string::npos) << call.text;
  ASSERT_EQ(call.results.size(), 2u);
  EXPECT_EQ(call.results[0].type, ops::hlo_type(operands[0]));
  EXPECT_EQ(call.results[1].type, (HloType{"f32", {2, 4, 256}}));
  const base::Json& fmha = call.configuration["cudnn_fmha_backend_config"];
  EXPECT_EQ(fmha["fmha_scale"], 0.125);
  EXPECT_EQ(fmha["mask_type"], "CAUSAL");
}

TEST(AttentionCudnnTest, TheGradientHandsOverWhatTheForwardPassKept) {
  Types operands = operands_of(DType::bf16, 256, 64);
  operands.insert(operands.end(), {operands[0], {DType::f32, {2, 4, 256}}, operands[0]});
  const WrittenCall call = written(ops::op_def("attention_grad"), operands);
  EXPECT_NE(call.text.find("(%a0, %a1, %a2, %a4, %a5, %a3)"), std::string::npos) << call.text;
  ASSERT_EQ(call.results.size(), 3u);
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(call.results[r].type, ops::hlo_type(operands[r])) << r;
  EXPECT_TRUE(call.configuration["cudnn_fmha_backend_config"].contains("bmm2_grad_gemm2_dot_dimension_numbers"));
}

}  // namespace
}  // namespace megacpp::emit
