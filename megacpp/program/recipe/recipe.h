// SPDX-License-Identifier: Apache-2.0
// What a user asks for: plain values with their defaults. A member that has no sensible default starts at 0 (or empty)
// and must be given; validate() in validate.h says so. Every member has one line in schema.inc, or in the table of its
// block family, which carries its documentation, range and place in the YAML text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/dtype.h"
#include "megacpp/core/schema/byte_size.h"
#include "megacpp/program/blocks/config.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/optim/optimizer.h"
#include "megacpp/program/recipe/modes.h"
#include "megacpp/program/recipe/rung_names.h"

namespace megacpp::recipe {

using optim::Optimizer;
using schema::ByteSize;

/// A letter that the recipe defines: a family with settings of its own.
struct Letter {
  std::string family;                           // "E"
  std::map<std::string, std::string> settings;  // "feed_forward.experts" -> "4"; others are those of the family

  bool operator==(const Letter&) const = default;
};

struct Model {
  std::string name;  // the recipe's name
  std::string pattern;
  int64_t depth = 0;  // blocks
  int64_t hidden = 0;
  int64_t vocab = 0;
  double norm_eps = 1e-5;
  NormPlace norm_place = NormPlace::before;
  bool norm_plus_one = false;
  bool tie_embeddings = false;
  double embed_scale = 1.0;
  double residual_scale = 1.0;
  double logits_divisor = 1.0;
  double logits_softcap = 0;  // 0 = off
  double init_std = 0.02;
  double z_loss = 0;  // on the logits
  /// The settings of every family, by its letter.
  std::map<char, blocks::Config> families = blocks::default_configs();
  std::map<char, Letter> letters = {};
  blocks::Lora lora = {};  // adapters beside its matrices; the section `lora` of a recipe

  /// The settings of the family that has this type of them: config<blocks::Attention>().
  template <typename Settings>
  Settings& config() {
    return const_cast<Settings&>(static_cast<const Model*>(this)->template config<Settings>());
  }
  template <typename Settings>
  const Settings& config() const {
    for (const auto& [letter, config] : families)
      if (const Settings* own = config.template get_if<Settings>()) return *own;
    MEGACPP_CHECK(false) << "no family has these settings";
    return families.begin()->second.template as<Settings>();
  }

  bool operator==(const Model&) const = default;
};

/// RecomputeLevel::automatic for every family, by its letter.
std::map<char, RecomputeLevel> default_recompute();

struct Train {
  int64_t batch = 0;     // sequences per micro-step, over all chips
  int64_t sequence = 0;  // tokens
  int64_t micro_steps = 1;
  int64_t global_batch = 0;  // as given; read into micro_steps, and 0 from then on
  int64_t steps = 0;
  int64_t seed = 1234;
  ir::DType precision = ir::DType::f32;  // f32 | bf16
  /// By letter. A letter of the recipe's own that is absent follows its family.
  std::map<char, RecomputeLevel> recompute = default_recompute();
  int64_t threads = 0;       // 0 = all cores
  int64_t wait_limit = 600;  // seconds
  int64_t log_every = 10;

  bool operator==(const Train&) const = default;
};

/// layout.reshard_after_forward: where weights stay split between forward and backward, with zero 3.
struct ReshardAfterForward {
  enum class Over : uint8_t { all, none, group };  // of the chips that share the batch

  Over over = Over::all;
  int64_t chips = 0;  // of a group

  bool operator==(const ReshardAfterForward&) const = default;
};
/// "true", "false" or a number of chips.
std::string text_of(const ReshardAfterForward& reshard);
bool read_text(std::string_view text, ReshardAfterForward& reshard);

/// layout.zero as it is given: -1 leaves it to the policy. What it becomes says plan::zero_level, so it has no order.
struct ZeroLevel {
  static constexpr int64_t kPolicyDecides = -1;

  constexpr ZeroLevel(int64_t level = kPolicyDecides) : given(level) {}  // NOLINT: a number is one

  bool is_open() const { return given == kPolicyDecides; }
  bool operator==(const ZeroLevel&) const = default;

  int64_t given;
};

/// How the model is spread over chips. It decides where and how fast a run computes, never what.
/// As given: 0 and open levels stand for "decide for me". plan::ResolvedLayout is what it becomes.
struct Layout {
  Policy policy = Policy::spmd;
  int64_t chips = 0;  // 0 = as many as the degrees need
  int64_t data_parallel = 1;
  int64_t expert_parallel = 1;
  int64_t context_parallel = 1;
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  bool sequence_parallel = true;       // of no effect without tensor_parallel
  int64_t expert_tensor_parallel = 0;  // 0 = tensor_parallel
  Dispatcher dispatcher = Dispatcher::alltoall;
  ContextAttention context_attention = ContextAttention::ring;
  bool load_balance = true;  // of no effect but in a ring
  StageSchedule schedule = StageSchedule::one_f_one_b;
  int64_t virtual_stages = 1;  // chunks of blocks per stage
  ZeroLevel zero = {};
  ReshardAfterForward reshard_after_forward = {};
  int64_t prefetch = 1;      // gathers in flight ahead of their use
  int64_t bucket_bytes = 0;  // of gradients; 0 = as published for Megatron-Core
  int64_t max_replicated_bytes = int64_t{1} << 30;
  CollectiveSums collectives = CollectiveSums::exact;
  Offload offload = Offload::none;               // to pinned memory of the host
  std::vector<std::string> offload_blocks = {};  // letters whose activations are; empty: all

  bool offloads_state() const { return offload == Offload::optimizer || offload == Offload::all; }
  bool offloads_activations() const { return offload == Offload::activations || offload == Offload::all; }
  bool operator==(const Layout&) const = default;
};

struct Data {
  std::vector<std::string> text = {};   // files, folders or globs; empty = the C++ headers of this machine
  std::vector<std::string> blend = {};  // token files, "PATH" or "PATH=WEIGHT"; instead of text
  double held_out = 0;                  // of each source, kept from training
  int64_t seed = -1;                    // of the order; -1: train.seed

  bool operator==(const Data&) const = default;
};

/// When a run saves its state, and which checkpoints it keeps. The last step is saved too.
struct Checkpoint {
  int64_t every = 100;     // steps; 0: the last step only; -1: nothing is ever saved
  int64_t keep = 2;        // the newest ones; 0: all
  int64_t keep_every = 0;  // steps: multiples of it are kept for good; 0: none

  bool saves() const { return every >= 0; }
  bool operator==(const Checkpoint&) const = default;
};

/// xla.cache: where compiled programs are kept.
struct ProgramCacheFolder {
  enum class In : uint8_t { users_cache, nowhere, folder };

  In in = In::users_cache;
  std::string folder = {};

  bool operator==(const ProgramCacheFolder&) const = default;
};
/// "auto", "off" or a folder.
std::string text_of(const ProgramCacheFolder& cache);
bool read_text(std::string_view text, ProgramCacheFolder& cache);

/// Settings of the backend that hands the program to XLA.
struct Xla {
  XlaPlacement placement = XlaPlacement::megacpp;
  std::string plugin = "cpu";  // cpu | tpu | cuda | a path
  XlaAttention attention = XlaAttention::fused;
  XlaLoops loops = XlaLoops::automatic;  // read by block_loops.h
  std::vector<std::string> flags;        // profiles, name=value, raw:name=value
  ProgramCacheFolder cache = {};

  bool operator==(const Xla&) const = default;
};

/// The chips: which ones a plan is for, how many bytes each may use, and faults. Texts are read by chip_settings.h.
struct Hardware {
  std::string target;                        // "v6e:16x16"; empty: this machine
  ByteSize limit;                            // of a virtual chip; 0: the chips share the machine's memory
  std::vector<std::string> limits;           // "3=256MiB": of one chip, instead of `limit`
  std::vector<std::string> fail_allocation;  // "chip 3 step 2", "chip 0 step load"

  bool operator==(const Hardware&) const = default;
};

/// What a launch may change when memory runs out.
struct Ladder {
  /// In this order; empty: none. By default first what changes no result.
  std::vector<std::string> rungs = rung_names();

  bool operator==(const Ladder&) const = default;
};

/// Where keys stand that --set gives.
inline constexpr const char* kSetOrigin = "--set";

/// Where each given key stands ("nam52.yaml:12", kSetOrigin); keys left out are absent. Recipes that differ in nothing
/// else are equal.
struct Origins : std::map<std::string, std::string, std::less<>> {
  bool operator==(const Origins&) const { return true; }
};

struct Recipe {
  std::string name;
  std::string backend = "cpu";  // cpu | xla | cuda
  Model model;
  Train train;
  Layout layout;
  Hardware hardware;
  Ladder ladder;
  Optimizer optimizer;
  Data data;
  Checkpoint checkpoint;
  Xla xla;
  Origins origins = {};  // of the text and --set; what planning changes keeps that of before

  bool operator==(const Recipe&) const = default;
};

}  // namespace megacpp::recipe
