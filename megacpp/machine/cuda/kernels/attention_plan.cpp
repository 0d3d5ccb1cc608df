// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/attention_plan.h"

#include <algorithm>
#include <limits>
#include <string>

namespace megacpp::runtime::cuda {
namespace {

static_assert(kHiddenLse == static_cast<float>(ops::kHiddenScore));

constexpr int64_t kMostAttentionTokens = int64_t{1} << 30;
constexpr int64_t kMostAttentionBlocks = std::numeric_limits<int32_t>::max();
constexpr int64_t kAttentionThreads = 256;

int64_t attention_blocks(int64_t items, int64_t block) { return (items + block - 1) / block; }

LaunchShape attention_launch(int64_t blocks) {
  return {.grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = {kAttentionThreads, 1, 1}};
}

AttentionShape attention_shape(const ops::NodeView& view) {
  const ir::TensorType &q = view.operands[0], &k = view.operands[1];
  return {.batch = static_cast<int32_t>(q.dim(0)),
          .queries = static_cast<int32_t>(q.dim(1)),
          .keys = static_cast<int32_t>(k.dim(1)),
          .heads = static_cast<int32_t>(q.dim(2)),
          .kv_heads = static_cast<int32_t>(k.dim(2)),
          .dim = static_cast<int32_t>(q.dim(3)),
          .scale = static_cast<float>(view.attrs.real("scale"))};
}

// Of the widest launch: a block of threads for each chunk of each token block of each head.
int64_t blocks_of_launch(const AttentionShape& z, int64_t tokens, int64_t heads) {
  return attention_blocks(tokens, kTokenBlock) * z.batch * heads * attention_blocks(z.dim, kTokenBlock);
}

int64_t attention_rows(const AttentionShape& z) { return int64_t{z.batch} * z.queries * z.heads; }
int64_t blocks_of_rows(const AttentionShape& z) { return attention_blocks(attention_rows(z), kAttentionThreads / 32); }

// Scores are compared before they are scaled, so that scale must be positive; tensor maps have no empty dimensions.
bool suits_tensor_cores(const ops::NodeView& view, const AttentionShape& z) {
  const bool has_elements = z.batch > 0 && z.queries > 0 && z.keys > 0;
  return view.operands[0].dtype == ir::DType::bf16 && (z.dim == 64 || z.dim == 128) && z.scale > 0 && has_elements;
}

int64_t token_blocks(const AttentionShape& z) {
  return int64_t{z.batch} * (blocks_of_tokens(z.queries) + blocks_of_tokens(z.keys));
}

}  // namespace

int64_t aligned_bytes(int64_t bytes) { return attention_blocks(bytes, kAlignment) * kAlignment; }

TileMask tile_mask(const ops::AttentionMask& mask) {
  const auto narrow = [](int64_t value) {
    return static_cast<int32_t>(std::min<int64_t>(value, std::numeric_limits<int32_t>::max()));
  };
  return {.causal = mask.causal ? 1 : 0,
          .window = narrow(mask.window),
          .sparse_block = narrow(mask.sparse_block),
          .sparse_local = narrow(mask.sparse_local),
          .sparse_global = narrow(mask.sparse_global)};
}

AttentionPlan::AttentionPlan(const ops::NodeView& view, size_t first_token_operand)
    : shape_(attention_shape(view)),
      mask_(tile_mask(ops::AttentionMask::from(view.attrs))),
      tokens_(ops::TokenOperands::behind(first_token_operand, view.attrs)),
      dtype_(ir::dtype_name(view.operands[0].dtype)),
      uses_tensor_cores_(suits_tensor_cores(view, shape_)) {}

int64_t AttentionPlan::walked_keys() const {
  int64_t most = shape_.keys;
  if (mask_.window > 0) most = std::min<int64_t>(most, mask_.window);
  if (mask_.sparse_block > 0)
    most = std::min<int64_t>(most, int64_t{mask_.sparse_block} * (2 * mask_.sparse_local - 1 + mask_.sparse_global));
  return most;
}

int64_t AttentionPlan::token_range_bytes() const {
  return has_token_ranges() ? aligned_bytes(token_blocks(shape_) * static_cast<int64_t>(sizeof(TokenRange))) : 0;
}

int64_t AttentionPlan::row_statistic_bytes() const {
  return aligned_bytes(attention_rows(shape_) * static_cast<int64_t>(sizeof(float)));
}

TileVisibility AttentionPlan::visibility(std::span<const Address> operands, Address ranges) const {
  TokenLabels labels{};
  if (tokens_.documents) {
    labels.query_segments = device_pointer<const int32_t>(operands[tokens_.query_segments()]);
    labels.key_segments = device_pointer<const int32_t>(operands[tokens_.key_segments()]);
  }
  if (tokens_.placed) {
    labels.query_positions = device_pointer<const int32_t>(operands[tokens_.query_positions()]);
    labels.key_positions = device_pointer<const int32_t>(operands[tokens_.key_positions()]);
  }
  if (has_token_ranges()) {
    labels.query_ranges = device_pointer<TokenRange>(ranges);
    labels.key_ranges = labels.query_ranges + int64_t{shape_.batch} * blocks_of_tokens(shape_.queries);
  }
  return {.shape = shape_, .mask = mask_, .tokens = labels};
}

LaunchShape AttentionPlan::token_range_launch() const {
  return attention_launch(attention_blocks(token_blocks(shape_), kAttentionThreads));
}
LaunchShape AttentionPlan::query_launch() const {
  return attention_launch(blocks_of_launch(shape_, shape_.queries, shape_.heads));
}
LaunchShape AttentionPlan::key_launch() const {
  return attention_launch(blocks_of_launch(shape_, shape_.keys, shape_.kv_heads));
}
LaunchShape AttentionPlan::row_launch() const { return attention_launch(blocks_of_rows(shape_)); }

AttentionParams attention_params(const AttentionPlan& plan, const Launch& launch) {
  return {.visibility = plan.visibility(launch.operands, launch.workspace),
          .q = device_pointer<>(launch.operands[0]),
          .k = device_pointer<>(launch.operands[1]),
          .v = device_pointer<>(launch.operands[2]),
          .out = device_pointer<>(launch.results[0]),
          .lse = device_pointer<float>(launch.results[1])};
}

AttentionGradParams attention_grad_params(const AttentionPlan& plan, const Launch& launch) {
  return {.visibility = plan.visibility(launch.operands, launch.workspace),
          .q = device_pointer<>(launch.operands[0]),
          .k = device_pointer<>(launch.operands[1]),
          .v = device_pointer<>(launch.operands[2]),
          .out = device_pointer<>(launch.operands[3]),
          .lse = device_pointer<const float>(launch.operands[4]),
          .dout = device_pointer<>(launch.operands[5]),
          .delta = nullptr,
          .dq = device_pointer<>(launch.results[0]),
          .dk = device_pointer<>(launch.results[1]),
          .dv = device_pointer<>(launch.results[2])};
}

base::Decision supports_attention(const ops::NodeView& view) {
  if (view.attrs.real("softcap", 0) > 0) return base::Decision::no("scores have a soft cap");
  if (view.attrs.flag("sinks")) return base::Decision::no("heads have sinks");
  for (const size_t operand : {size_t{0}, size_t{1}})
    for (const int64_t size : view.operands[operand].shape)
      if (size > kMostAttentionTokens)
        return base::Decision::no("a dimension of " + std::to_string(size) + " is over 2^30");
  const AttentionShape z = attention_shape(view);
  const int64_t most = std::max({blocks_of_launch(z, z.queries, z.heads), blocks_of_launch(z, z.keys, z.kv_heads),
                                 blocks_of_rows(z), token_blocks(z)});
  if (most > kMostAttentionBlocks) return base::Decision::no(std::to_string(most) + " tiles to compute are over 2^31");
  return base::Decision::yes();
}

}  // namespace megacpp::runtime::cuda
