// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

// One pass in token order: it is a few instructions a choice, so threads would not pay.
Prepared prepare_token_choice(const ops::NodeView& view, int) {
  const int64_t choices = view.operands[0].elements();
  const int64_t num_experts = view.attrs.integer("num_experts");
  const int32_t capacity = static_cast<int32_t>(view.attrs.integer("capacity"));
  const auto run = [=](const KernelArgs& args) {
    const int32_t* experts = args.in<int32_t>(0);  // [T, k]
    int32_t* slot = args.out<int32_t>(0);          // [T, k]
    int32_t* counts = args.out<int32_t>(1);        // [num_experts]
    int32_t* next = args.scratch<int32_t>();       // [num_experts], the slot the next choice of each expert takes
    std::fill_n(counts, num_experts, 0);
    for (int64_t i = 0; i < choices; ++i) ++counts[experts[i]];
    for (int64_t e = 0, first = 0; e < num_experts; first += counts[e], ++e)
      next[e] = capacity > 0 ? static_cast<int32_t>(e) * capacity : static_cast<int32_t>(first);
    for (int64_t i = 0; i < choices; ++i) {
      const int32_t expert = experts[i];
      const bool full = capacity > 0 && next[expert] == (expert + 1) * capacity;
      slot[i] = full ? -1 : next[expert]++;
    }
  };
  return {run, num_experts * static_cast<int64_t>(sizeof(int32_t))};
}

// Orders as integers: higher scores first, then lower tokens. Total even when a score is NaN, which sorting needs.
uint64_t sort_key(float score, int64_t token) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 becomes +0: they are equal scores
  const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint64_t>(token);
}

Prepared prepare_expert_choice(const ops::NodeView& view, int threads) {
  const int64_t tokens = view.operands[0].dim(0);
  const int64_t num_experts = view.operands[0].dim(1);
  const int64_t capacity = view.attrs.integer("capacity");
  const int64_t taken = std::min(capacity, tokens);
  const int64_t keys_bytes = (tokens * static_cast<int64_t>(sizeof(uint64_t)) + 63) / 64 * 64;
  const auto run = [=](const KernelArgs& args) {
    const float* scores = args.in(0);      // [T, E]
    int32_t* slot = args.out<int32_t>(0);  // [T, E]
    args.pool.for_each(num_experts, [&](int64_t expert, int worker) {
      uint64_t* keys = args.scratch<uint64_t>(worker * keys_bytes);  // [T]
      for (int64_t t = 0; t < tokens; ++t) keys[t] = sort_key(scores[t * num_experts + expert], t);
      std::nth_element(keys, keys + taken, keys + tokens);
      std::sort(keys, keys + taken);
      for (int64_t t = 0; t < tokens; ++t) slot[t * num_experts + expert] = -1;
      for (int64_t rank = 0; rank < taken; ++rank) {
        const int64_t token = static_cast<int64_t>(keys[rank] & 0xFFFFFFFFU);
        slot[token * num_experts + expert] = static_cast<int32_t>(expert * capacity + rank);
      }
    });
  };
  return {run, threads * keys_bytes};
}

}  // namespace

Kernel token_choice_slots_kernel() { return {.op = "token_choice_slots", .prepare = prepare_token_choice}; }
Kernel expert_choice_slots_kernel() { return {.op = "expert_choice_slots", .prepare = prepare_expert_choice}; }

}  // namespace megacpp::runtime::cpu
