// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/attention_wgmma.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

// Which function of a cubin: "_band_64".
std::string wgmma_suffix(const AttentionPlan& plan) {
  return std::string(plan.is_band() ? "_band_" : "_any_") + std::to_string(plan.shape().dim);
}

MapWords map_words(const Driver& driver, const HeadTensor& tensor) {
  const TensorMap map = make_tensor_map(driver, tiled_heads(tensor));
  MapWords words;
  static_assert(sizeof(words) == sizeof(map));
  std::memcpy(&words, &map, sizeof(words));
  return words;
}

MapWords query_map(const Driver& driver, Address address, const AttentionShape& z, int64_t tile) {
  return map_words(
      driver,
      {.address = address, .batch = z.batch, .tokens = z.queries, .heads = z.heads, .dim = z.dim, .tile = tile});
}
MapWords key_map(const Driver& driver, Address address, const AttentionShape& z, int64_t tile) {
  return map_words(
      driver,
      {.address = address, .batch = z.batch, .tokens = z.keys, .heads = z.kv_heads, .dim = z.dim, .tile = tile});
}

// The sizes of tiles as numbers, for the head width of a plan.
struct ForwardSizes {
  int64_t queries, keys;
  uint32_t threads, shared_bytes;
};
template <int dim>
constexpr ForwardSizes kForwardSizes = {ForwardTile<dim>::kQueries, ForwardTile<dim>::kKeys, ForwardTile<dim>::kThreads,
                                        ForwardTile<dim>::kSharedBytes};
ForwardSizes forward_sizes(const AttentionPlan& plan) {
  return plan.shape().dim == 64 ? kForwardSizes<64> : kForwardSizes<128>;
}

struct GradSizes {
  int64_t queries, keys;
  uint32_t threads, shared_bytes;
};
template <int dim>
constexpr GradSizes kGradSizes = {GradTile<dim>::kQueries, GradTile<dim>::kKeys, GradTile<dim>::kThreads,
                                  GradTile<dim>::kSharedBytes};
GradSizes grad_sizes(const AttentionPlan& plan) { return plan.shape().dim == 64 ? kGradSizes<64> : kGradSizes<128>; }

int64_t tiles_of(int64_t tokens, int64_t tile) { return (tokens + tile - 1) / tile; }

// Byte offsets into the workspace of the gradient.
struct GradWorkspace {
  int64_t lse, delta, sums, turns, ticket, end;
  int64_t query_tiles, padded_rows;  // of all heads and batch rows; rows with those past the end

  explicit GradWorkspace(const AttentionPlan& plan) {
    const AttentionShape& z = plan.shape();
    const GradSizes sizes = grad_sizes(plan);
    query_tiles = int64_t{z.batch} * z.heads * tiles_of(z.queries, sizes.queries);
    padded_rows = query_tiles * sizes.queries;
    lse = plan.token_range_bytes();
    delta = lse + aligned_bytes(padded_rows * 4);
    sums = delta + aligned_bytes(padded_rows * 4);
    turns = sums + aligned_bytes(padded_rows * z.dim * 4);
    ticket = turns + aligned_bytes(query_tiles * 4);
    end = ticket + kAlignment;
  }
};

AttentionGradTmaParams grad_tma_params(const AttentionPlan& plan, const Launch& launch, const Driver& driver,
                                       int32_t rows_together) {
  const AttentionShape& z = plan.shape();
  const GradSizes sizes = grad_sizes(plan);
  const GradWorkspace workspace(plan);
  const auto at = [&](int64_t offset) { return launch.workspace + static_cast<Address>(offset); };
  return {.node = attention_grad_params(plan, launch),
          .q = query_map(driver, launch.operands[0], z, sizes.queries),
          .k = key_map(driver, launch.operands[1], z, sizes.keys),
          .v = key_map(driver, launch.operands[2], z, sizes.keys),
          .dout = query_map(driver, launch.operands[5], z, sizes.queries),
          .lse = device_pointer<float>(at(workspace.lse)),
          .delta = device_pointer<float>(at(workspace.delta)),
          .dq_sums = device_pointer<float>(at(workspace.sums)),
          .turns = device_pointer<int32_t>(at(workspace.turns)),
          .ticket = device_pointer<int32_t>(at(workspace.ticket)),
          .rows_together = rows_together};
}

// A thread each, in blocks of 256.
LaunchShape thread_launch(int64_t threads) {
  return {.grid = {static_cast<uint32_t>(tiles_of(threads, 256)), 1, 1}, .block = {256, 1, 1}};
}

}  // namespace

int32_t grad_rows_together(const AttentionShape& z, int64_t multiprocessors) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(tiles_of(multiprocessors, kGradTilesTogether), 1, int64_t{z.batch} * z.kv_heads));
}

TiledTensor tiled_heads(const HeadTensor& tensor) {
  const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements * 2); };
  const auto size = [](int64_t value) { return static_cast<uint64_t>(value); };
  const int64_t pieces = tensor.dim / 64, token = tensor.heads * tensor.dim;
  return {.type = MapType::bf16,
          .address = tensor.address,
          .shape = {64, size(tensor.heads), size(tensor.tokens), size(pieces), size(tensor.batch)},
          .strides = {bytes(tensor.dim), bytes(token), bytes(64), bytes(token * tensor.tokens)},
          .box = {64, 1, static_cast<uint32_t>(tensor.tile), static_cast<uint32_t>(pieces), 1},
          .swizzle = Swizzle::bytes_128};
}

Prepared prepare_attention_wgmma(const AttentionPlan& plan, Toolbox& toolbox) {
  const Function find_ranges = toolbox.function("attention", "attention_token_ranges");
  const Function attend = toolbox.function("attention_wgmma", "attention_wgmma" + wgmma_suffix(plan));
  const Driver* driver = &toolbox.driver();
  const AttentionShape& z = plan.shape();
  const ForwardSizes sizes = forward_sizes(plan);
  const int64_t tasks = int64_t{z.batch} * z.heads * tiles_of(z.queries, sizes.queries);
  const int64_t blocks = std::min<int64_t>(tasks, toolbox.properties().multiprocessors);
  const LaunchShape shape{.grid = {static_cast<uint32_t>(blocks), 1, 1},
                          .block = {sizes.threads, 1, 1},
                          .shared_bytes = sizes.shared_bytes};
  return {.run = [plan, find_ranges, attend, driver, sizes, shape](const Launch& launch) {
    const AttentionTmaParams params{.node = attention_params(plan, launch),
                                    .q = query_map(*driver, launch.operands[0], plan.shape(), sizes.queries),
                                    .k = key_map(*driver, launch.operands[1], plan.shape(), sizes.keys),
                                    .v = key_map(*driver, launch.operands[2], plan.shape(), sizes.keys)};
    if (plan.has_token_ranges())
      cuda::launch(find_ranges, plan.token_range_launch(), launch.stream, params.node.visibility);
    cuda::launch(attend, shape, launch.stream, params);
  }};
}

int64_t attention_grad_wgmma_bytes(const AttentionPlan& plan) {
  return GradWorkspace(plan).end - plan.token_range_bytes();
}

Prepared prepare_attention_grad_wgmma(const AttentionPlan& plan, Toolbox& toolbox) {
  const auto function = [&](const std::string& name) {
    return toolbox.function("attention_grad_wgmma", "attention_grad_wgmma" + name);
  };
  const std::string dim = std::to_string(plan.shape().dim);
  const Function find_ranges = toolbox.function("attention", "attention_token_ranges");
  const Function prepare_rows = function("_rows_" + dim), go_back = function(wgmma_suffix(plan));
  const Function finish_queries = function("_queries_" + dim);
  const Driver* driver = &toolbox.driver();
  const AttentionShape& z = plan.shape();
  const GradSizes sizes = grad_sizes(plan);
  const LaunchShape shape{
      .grid = {static_cast<uint32_t>(int64_t{z.batch} * z.kv_heads * tiles_of(z.keys, sizes.keys)), 1, 1},
      .block = {sizes.threads, 1, 1},
      .shared_bytes = sizes.shared_bytes};
  const int32_t together = grad_rows_together(z, toolbox.properties().multiprocessors);
  return {
      .run = [plan, find_ranges, prepare_rows, go_back, finish_queries, driver, shape, together](const Launch& launch) {
        const AttentionGradTmaParams params = grad_tma_params(plan, launch, *driver, together);
        const int64_t elements = GradWorkspace(plan).padded_rows * plan.shape().dim;
        if (plan.has_token_ranges())
          cuda::launch(find_ranges, plan.token_range_launch(), launch.stream, params.node.visibility);
        cuda::launch(prepare_rows, thread_launch(elements / 8), launch.stream, params);
        cuda::launch(go_back, shape, launch.stream, params);
        cuda::launch(finish_queries, thread_launch(elements / 16), launch.stream, params);
      }};
}

}  // namespace megacpp::runtime::cuda
