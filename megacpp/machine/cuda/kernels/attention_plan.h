// SPDX-License-Identifier: Apache-2.0
// What the host knows of a node of attention or its gradient: sizes, mask, how much workspace it needs and how many
// blocks of threads its launches have. Nothing here needs a device.
#pragma once

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/attention_params.h"
#include "megacpp/program/ops/attention_mask.h"

namespace megacpp::runtime::cuda {

TileMask tile_mask(const ops::AttentionMask& mask);

class AttentionPlan {
 public:
  /// `first_token_operand` is where operands that describe tokens begin (ops::kAttentionOperands and its like).
  AttentionPlan(const ops::NodeView& view, size_t first_token_operand);

  const AttentionShape& shape() const { return shape_; }
  /// "f32" or "bf16": the end of the names of device functions.
  const std::string& dtype() const { return dtype_; }

  /// bf16 of a head width that the kernels of tensor cores are made for.
  bool uses_tensor_cores() const { return uses_tensor_cores_; }
  /// Queries and keys stand in order, and a query sees a band of keys.
  bool is_band() const { return !has_token_ranges() && mask_.sparse_block == 0; }

  /// Keys that a block of queries walks one after the other, at most.
  int64_t walked_keys() const;

  bool has_token_ranges() const { return tokens_.documents || tokens_.placed; }
  /// Workspace for the ranges of token blocks, a multiple of kAlignment.
  int64_t token_range_bytes() const;
  /// f32 [b,H,s], a multiple of kAlignment.
  int64_t row_statistic_bytes() const;

  /// `ranges` is the address of token_range_bytes().
  TileVisibility visibility(std::span<const Address> operands, Address ranges) const;

  LaunchShape token_range_launch() const;
  /// A block of threads a block of queries or keys, head, batch row and chunk of columns.
  LaunchShape query_launch() const;
  LaunchShape key_launch() const;
  /// A warp a row [b,s,H].
  LaunchShape row_launch() const;

 private:
  AttentionShape shape_;
  TileMask mask_;
  ops::TokenOperands tokens_;
  std::string dtype_;
  bool uses_tensor_cores_;
};

/// Of a node's operands and results; the workspace begins with the ranges of token blocks.
AttentionParams attention_params(const AttentionPlan& plan, const Launch& launch);
/// The same, without delta.
AttentionGradParams attention_grad_params(const AttentionPlan& plan, const Launch& launch);

/// Sizes are counted in 32 bits on the device.
base::Decision supports_attention(const ops::NodeView& view);

/// `bytes` up to the next multiple of kAlignment.
int64_t aligned_bytes(int64_t bytes);

template <typename T = void>
T* device_pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace megacpp::runtime::cuda
