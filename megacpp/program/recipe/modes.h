// SPDX-License-Identifier: Apache-2.0
// The modes of a recipe: keys that are one of a few words. The words of each stand in one table, from which its key is
// read, printed, checked and documented (schema.inc).
#pragma once

#include <array>
#include <cstdint>

#include "megacpp/core/base/words.h"

namespace megacpp::recipe {

/// model.norm_place
enum class NormPlace : uint8_t { before, after, both };
constexpr auto words_of(NormPlace) {
  return std::to_array<base::Word<NormPlace>>({{NormPlace::before, "before", "on what it reads"},
                                               {NormPlace::after, "after", "on what it adds to the residual stream"},
                                               {NormPlace::both, "both", "on each"}});
}

/// layout.policy: what keys of the layout that are not given become, and how weights are gathered (plan/policy.h).
enum class Policy : uint8_t { spmd, fsdp, megatron };
constexpr auto words_of(Policy) {
  return std::to_array<base::Word<Policy>>(
      {{Policy::spmd, "spmd", "keys as given"},
       {Policy::fsdp, "fsdp", "one weight gather per block (ZeRO-3)"},
       {Policy::megatron, "megatron", "a bucketed distributed optimizer (ZeRO-1)"}});
}

/// layout.dispatcher
enum class Dispatcher : uint8_t { alltoall, allgather };
constexpr auto words_of(Dispatcher) {
  return std::to_array<base::Word<Dispatcher>>(
      {{Dispatcher::alltoall, "alltoall", "each to the chips that have its experts"},
       {Dispatcher::allgather, "allgather", "all of a group's tokens to each of its chips"}});
}

/// layout.context_attention
enum class ContextAttention : uint8_t { ring, alltoall };
constexpr auto words_of(ContextAttention) {
  return std::to_array<base::Word<ContextAttention>>(
      {{ContextAttention::ring, "ring", "keys and values are passed around"},
       {ContextAttention::alltoall, "alltoall", "heads are swapped for tokens"}});
}

/// layout.schedule
enum class StageSchedule : uint8_t { gpipe, one_f_one_b, interleaved, zero_bubble };
constexpr auto words_of(StageSchedule) {
  return std::to_array<base::Word<StageSchedule>>(
      {{StageSchedule::gpipe, "gpipe", "all forward passes, then all backward passes"},
       {StageSchedule::one_f_one_b, "1f1b", "forward and backward passes alternate as soon as they can"},
       {StageSchedule::interleaved, "interleaved", "1f1b with several chunks per chip"},
       {StageSchedule::zero_bubble, "zero_bubble", "1f1b with the backward pass in two parts (ZB-H1)"}});
}

/// layout.collectives
enum class CollectiveSums : uint8_t { exact, fast };
constexpr auto words_of(CollectiveSums) {
  return std::to_array<base::Word<CollectiveSums>>(
      {{CollectiveSums::exact, "exact", "in their order, the bits of one process"},
       {CollectiveSums::fast, "fast", "those of a process first, whose sum alone crosses to the others"}});
}

/// layout.offload
enum class Offload : uint8_t { none, optimizer, activations, all };
constexpr auto words_of(Offload) {
  return std::to_array<base::Word<Offload>>(
      {{Offload::none, "none", "nothing"},
       {Offload::optimizer, "optimizer", "the optimizer's state, streamed through the chip in the update"},
       {Offload::activations, "activations", "what blocks keep for the backward pass, from one pass to the other"},
       {Offload::all, "all", "both"}});
}

/// train.recompute, of one letter. Planning makes another level of `automatic` (fit/auto_recompute.h). Compiled as it
/// is, without hardware to plan for, it keeps everything, as `none` does.
enum class RecomputeLevel : uint8_t { automatic, none, selective, full };
constexpr auto words_of(RecomputeLevel) {
  return std::to_array<base::Word<RecomputeLevel>>(
      {{RecomputeLevel::automatic, "auto", "what costs no time, and more only where the plan would not fit"},
       {RecomputeLevel::none, "none"},
       {RecomputeLevel::selective, "selective"},
       {RecomputeLevel::full, "full"}});
}
/// Whether blocks at that level keep everything.
constexpr bool keeps_everything(RecomputeLevel level) {
  return level == RecomputeLevel::automatic || level == RecomputeLevel::none;
}

/// xla.placement
enum class XlaPlacement : uint8_t { xla, megacpp };
constexpr auto words_of(XlaPlacement) {
  return std::to_array<base::Word<XlaPlacement>>(
      {{XlaPlacement::xla, "xla", "XLA, from shardings on the whole program"},
       {XlaPlacement::megacpp, "megacpp", "we, in the program of one chip"}});
}

/// xla.attention
enum class XlaAttention : uint8_t { fused, blocked };
constexpr auto words_of(XlaAttention) {
  return std::to_array<base::Word<XlaAttention>>(
      {{XlaAttention::fused, "fused",
        "the plugin's own call where it has one, as cuDNN's for causal attention in bf16"},
       {XlaAttention::blocked, "blocked", "always ours, blocks of queries or a loop over blocks"}});
}

/// xla.loops; block_loops.h says what `automatic` becomes.
enum class XlaLoops : uint8_t { automatic, on, off };
constexpr auto words_of(XlaLoops) {
  return std::to_array<base::Word<XlaLoops>>(
      {{XlaLoops::automatic, "auto",
        "off for plugins of GPUs, where that was measured to be faster and to take less, else on, unless a plan for a "
        "TPU fits only without"},
       {XlaLoops::on, "on",
        "blocks that repeat are one loop over stacked state, which XLA compiles in a time that does not grow with the "
        "depth"},
       {XlaLoops::off, "off", "every block by itself, its state too"}});
}

}  // namespace megacpp::recipe
