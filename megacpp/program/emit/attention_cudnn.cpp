// SPDX-License-Identifier: Apache-2.0
// The calls and the fields of their configuration are those of XLA's GPU compiler (GpuBackendConfig in
// xla/service/gpu/backend_configs.proto). Sizes in it are texts, as JSON has 64-bit numbers.
#include "megacpp/program/emit/attention_cudnn.h"

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/program/ops/attention_decompose.h"

namespace megacpp::emit {
namespace {

using ops::HloArgs;
using ops::HloResults;
using ops::HloType;
using ops::HloValue;
using ops::HloWriter;

// Head dimensions of cuDNN's flash kernels, forward and backward.
constexpr int64_t kLargestHead = 128, kHeadStep = 8;

/// Dimensions of one product of two tensors of rank 4, as XLA's configuration names them.
struct Product {
  const char* name;
  int64_t lhs_contract, rhs_contract;
  int64_t lhs_head, rhs_head;  // beside the batch, dimension 0
};

// Scores q k^T and weights v; tensors are [b,s,H,d], weights [b,H,s,t].
constexpr Product kForward[] = {{"bmm1_dot_dimension_numbers", 3, 3, 2, 2}, {"bmm2_dot_dimension_numbers", 3, 1, 1, 2}};
constexpr Product kBackward[] = {{"bmm1_grad_gemm1_dot_dimension_numbers", 2, 1, 1, 2},
                                 {"bmm1_grad_gemm2_dot_dimension_numbers", 3, 1, 1, 2},
                                 {"bmm2_grad_gemm1_dot_dimension_numbers", 2, 1, 1, 2},
                                 {"bmm2_grad_gemm2_dot_dimension_numbers", 3, 3, 2, 2}};

std::string product_text(const Product& p) {
  return fmt::format(R"("{}":{{"lhs_contracting_dimensions":["{}"],"rhs_contracting_dimensions":["{}"],)"
                     R"("lhs_batch_dimensions":["0","{}"],"rhs_batch_dimensions":["0","{}"]}})",
                     p.name, p.lhs_contract, p.rhs_contract, p.lhs_head, p.rhs_head);
}

// Scores never exist, but XLA asks for the type they would have.
std::string scores_text(const ops::AttentionDims& z) {
  return fmt::format(
      R"({{"element_type":"BF16","dimensions":["{}","{}","{}","{}"],"layout":{{"minor_to_major":["3","2","1","0"]}},)"
      R"("is_dynamic_dimension":[false,false,false,false]}})",
      z.b, z.heads, z.s, z.t);
}

std::string configuration(const HloArgs& args, std::span<const Product> products) {
  const ops::AttentionDims z(args.view.operands[0], args.view.operands[1]);
  std::vector<std::string> texts;
  for (const Product& product : products) texts.push_back(product_text(product));
  return fmt::format(
      R"({{"operation_queue_id":"0","cudnn_fmha_backend_config":{{)"
      R"("algorithm":{{"algo_id":"0","math_type":"TENSOR_OP_MATH","tuning_knobs":{{"17":"1","24":"0"}},)"
      R"("is_cudnn_frontend":true,"workspace_size":"0"}},)"
      R"("fmha_scale":{},"intermediate_tensor_shape":{},"is_flash_attention":true,"mask_type":"{}",{},)"
      R"("dropout_rate":0.0,"seed":42,"sliding_window_length":0,"max_seg_per_batch":1,"is_paged_attention":false}}}})",
      args.attrs().real("scale"), scores_text(z), args.attrs().flag("causal") ? "CAUSAL" : "NO_MASK",
      fmt::join(texts, ","));
}

// "dense<[2, 1, 0]> : tensor<3xindex>": the dimensions from the minor-most to the major-most.
std::string minor_to_major(const HloType& type, bool has_heads_first) {
  if (type.shape.size() == 4)
    return fmt::format("dense<[{}]> : tensor<4xindex>", has_heads_first ? "3, 1, 2, 0" : "3, 2, 1, 0");
  return type.shape.size() == 3 ? "dense<[2, 1, 0]> : tensor<3xindex>" : "dense<0> : tensor<1xindex>";
}

// cuDNN names tensors [b,H,s,d], but takes them in our layout, [b,s,H,d]: the transpose costs nothing.
HloType with_heads_first(const HloType& type) {
  const ir::Shape& s = type.shape;
  return {type.element, {s[0], s[2], s[1], s[3]}};
}

struct Call {
  const char* target;
  std::vector<HloValue> operands;
  std::vector<HloType> results;  // a workspace comes behind them, whose size XLA finds
  std::span<const Product> products;
};

std::vector<HloValue> write_call(HloWriter& w, const HloArgs& args, Call call) {
  call.results.push_back({"ui8", {0}});
  std::vector<std::string> operand_layouts, result_layouts;
  for (const HloValue& operand : call.operands) operand_layouts.push_back(minor_to_major(operand.type, false));
  for (const HloType& result : call.results) result_layouts.push_back(minor_to_major(result, true));
  std::string escaped;
  for (const char c : configuration(args, call.products)) escaped += c == '"' ? std::string("\\22") : std::string(1, c);
  std::vector<HloValue> results =
      w.ops("custom_call", call.operands,
            fmt::format("call_target_name = \"{}\", api_version = 2 : i32, backend_config = \"{}\", "
                        "operand_layouts = [{}], result_layouts = [{}]",
                        call.target, escaped, fmt::join(operand_layouts, ", "), fmt::join(result_layouts, ", ")),
            call.results);
  results.pop_back();
  for (HloValue& result : results)
    if (result.type.shape.size() == 4) result = w.transpose(result, {0, 2, 1, 3});
  return results;
}

}  // namespace

base::Decision fits_cudnn_attention(const ops::NodeView& view) {
  const ir::TensorType& q = view.operands[0];
  const ops::AttentionMask mask = ops::AttentionMask::from(view.attrs);
  if (q.dtype != ir::DType::bf16) return base::Decision::no("cuDNN attends in 16 bits");
  if (view.attrs.flag("placed") || view.attrs.flag("documents"))
    return base::Decision::no("tokens are not one run of one document");
  if (view.attrs.real("softcap", 0) > 0 || view.attrs.flag("sinks"))
    return base::Decision::no("scores have a soft cap, or heads have sinks");
  if (mask.window > 0 || mask.sparse_block > 0) return base::Decision::no("its mask is more than causal");
  if (q.dim(3) % kHeadStep != 0 || q.dim(3) > kLargestHead)
    return base::Decision::no(
        fmt::format("head dimension {} is no multiple of {} up to {}", q.dim(3), kHeadStep, kLargestHead));
  if (q.dim(1) % 2 != 0) return base::Decision::no(fmt::format("{} tokens are not even", q.dim(1)));
  return base::Decision::yes();
}

HloResults write_cudnn_attention(HloWriter& w, const HloArgs& args) {
  return write_call(w, args,
                    {.target = "__cudnn$fmhaSoftmax",
                     .operands = {args.operands.begin(), args.operands.end()},
                     .results = {with_heads_first(args.result(0)), args.result(1)},
                     .products = kForward});
}

HloResults write_cudnn_attention_grad(HloWriter& w, const HloArgs& args) {
  const std::span<const HloValue> in = args.operands;
  const HloValue &out = in[3], &lse = in[4], &dout = in[5];
  return write_call(w, args,
                    {.target = "__cudnn$fmhaSoftmaxBackward",
                     .operands = {in[0], in[1], in[2], lse, dout, out},
                     .results = {with_heads_first(args.result(0)), with_heads_first(args.result(1)),
                                 with_heads_first(args.result(2))},
                     .products = kBackward});
}

}  // namespace megacpp::emit
