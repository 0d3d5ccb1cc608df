// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

// Choices of one chunk, and the experts they are of.
struct Chunk {
  int64_t choices, experts;

  void count(const int32_t* experts_of, int32_t* counts) const {
    std::fill_n(counts, experts, 0);
    for (int64_t i = 0; i < choices; ++i)
      if (experts_of[i] >= 0) ++counts[experts_of[i]];
  }
};

Chunk chunk_of(const ops::NodeView& view) {
  return {view.operands[0].dim(2) * view.operands[0].dim(3), view.attrs.integer("num_experts")};
}

Prepared prepare_counts(const ops::NodeView& view, int) {
  const Chunk chunk = chunk_of(view);
  const int64_t chunks = view.operands[0].dim(0) * view.operands[0].dim(1);
  return {[=](const KernelArgs& args) {
    const int32_t* experts = args.in<int32_t>(0);  // [b, c, l, k]
    int32_t* counts = args.out<int32_t>(0);        // [b, c, E]
    args.pool.for_each(chunks,
                       [&](int64_t c, int) { chunk.count(experts + c * chunk.choices, counts + c * chunk.experts); });
  }};
}

// Row numbers of one chunk, in one pass of a few instructions a choice.
struct Placement {
  Chunk chunk;
  int32_t capacity, rows_per_expert;

  // next[e]: the row the next choice of expert e takes; end[e]: the first row it may not take.
  void start(const int32_t* experts_of, const int32_t* before, int32_t* next, int32_t* end) const {
    if (rows_per_expert == 0) {
      chunk.count(experts_of, end);
      for (int64_t e = 0; e < chunk.experts; ++e) {
        next[e] = e == 0 ? 0 : end[e - 1];
        end[e] += next[e];
      }
      return;
    }
    for (int64_t e = 0; e < chunk.experts; ++e) {
      const int32_t taken = before == nullptr ? 0 : before[e];
      const int32_t free = capacity == 0 ? rows_per_expert : std::clamp(capacity - taken, 0, rows_per_expert);
      next[e] = static_cast<int32_t>(e) * rows_per_expert;
      end[e] = next[e] + free;
    }
  }

  void place(const int32_t* experts_of, int32_t* next, const int32_t* end, int32_t* slot) const {
    for (int64_t i = 0; i < chunk.choices; ++i) {
      const int32_t expert = experts_of[i];
      slot[i] = expert < 0 || next[expert] == end[expert] ? -1 : next[expert]++;
    }
  }
};

Prepared prepare_token_choice(const ops::NodeView& view, int threads) {
  const Placement placement = {chunk_of(view), static_cast<int32_t>(view.attrs.integer("capacity")),
                               static_cast<int32_t>(view.attrs.integer("rows_per_expert"))};
  const Chunk& chunk = placement.chunk;
  const int64_t chunks = view.operands[0].dim(0) * view.operands[0].dim(1);
  const bool has_before = view.operands.size() == 2;
  const int64_t scratch_bytes = (2 * chunk.experts * static_cast<int64_t>(sizeof(int32_t)) + 63) / 64 * 64;
  const auto run = [=](const KernelArgs& args) {
    const int32_t* experts = args.in<int32_t>(0);                        // [b, c, l, k]
    const int32_t* before = has_before ? args.in<int32_t>(1) : nullptr;  // [b, c, E]
    int32_t* slot = args.out<int32_t>(0);                                // [b, c, l, k]
    args.pool.for_each(chunks, [&](int64_t c, int worker) {
      int32_t* next = args.scratch<int32_t>(worker * scratch_bytes);  // [E]
      int32_t* end = next + placement.chunk.experts;                  // [E]
      const int32_t* own = experts + c * placement.chunk.choices;
      placement.start(own, before == nullptr ? nullptr : before + c * placement.chunk.experts, next, end);
      placement.place(own, next, end, slot + c * placement.chunk.choices);
    });
  };
  return {run, threads * scratch_bytes};
}

// Orders as integers: higher scores first, then earlier tokens. Total even when a score is NaN.
uint64_t sort_key(float score, int64_t time) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 becomes +0: they are equal scores
  const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint64_t>(time);
}

Prepared prepare_expert_choice(const ops::NodeView& view, int threads) {
  const int64_t sequences = view.operands[0].dim(0);
  const int64_t tokens = view.operands[0].dim(1);
  const int64_t num_experts = view.operands[0].dim(2);
  const int64_t taken = std::min(view.attrs.integer("capacity"), tokens);
  const bool has_times = view.operands.size() == 2;
  const int64_t keys_bytes = (2 * tokens * static_cast<int64_t>(sizeof(uint64_t)) + 63) / 64 * 64;
  const auto run = [=](const KernelArgs& args) {
    const float* scores = args.in(0);                                  // [b, s, E]
    const int32_t* times = has_times ? args.in<int32_t>(1) : nullptr;  // [s]
    uint8_t* chosen = args.out<uint8_t>(0);                            // [b, s, E]
    args.pool.for_each(sequences * num_experts, [&](int64_t item, int worker) {
      const int64_t first = item / num_experts * tokens * num_experts + item % num_experts;
      uint64_t* keys = args.scratch<uint64_t>(worker * keys_bytes);  // [s], by token
      uint64_t* ranked = keys + tokens;                              // [s], partly sorted
      for (int64_t t = 0; t < tokens; ++t)
        keys[t] = sort_key(scores[first + t * num_experts], times == nullptr ? t : times[t]);
      std::copy_n(keys, tokens, ranked);
      std::nth_element(ranked, ranked + taken - 1, ranked + tokens);
      for (int64_t t = 0; t < tokens; ++t) chosen[first + t * num_experts] = keys[t] <= ranked[taken - 1] ? 1 : 0;
    });
  };
  return {run, threads * keys_bytes};
}

}  // namespace

Kernel expert_counts_kernel() { return {.op = "expert_counts", .prepare = prepare_counts}; }
Kernel token_choice_slots_kernel() { return {.op = "token_choice_slots", .prepare = prepare_token_choice}; }
Kernel expert_choice_kernel() { return {.op = "expert_choice", .prepare = prepare_expert_choice}; }

}  // namespace megacpp::runtime::cpu
