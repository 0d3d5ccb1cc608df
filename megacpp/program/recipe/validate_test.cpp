// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "tests/support/errors.h"

namespace megacpp::recipe {
namespace {

Recipe small() {
  Recipe recipe;
  recipe.name = "small";
  recipe.model = {.name = "small", .pattern = "AMER", .depth = 4, .hidden = 32, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 8};
  recipe.model.config<blocks::Mamba>() = {.heads = 8, .head_dim = 8, .groups = 2};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 64, .experts = 4};
  recipe.model.config<blocks::Recurrent>() = {.width = 32, .heads = 4};
  recipe.train.batch = 2;
  recipe.train.sequence = 16;
  recipe.train.steps = 10;
  return recipe;
}

struct Gate {
  const char* name;
  base::Code code;
  const char* path;  // of the key that is named
  std::function<void(Recipe&)> spoil;
  std::string next;  // expected, when not empty
};

base::Error validate_error(const Recipe& recipe, const Origins& origins = {}) {
  return testing_support::error_of([&] { validate(recipe, origins); });
}

TEST(ValidateTest, ASoundRecipePasses) { EXPECT_NO_THROW(validate(small())); }

/// As of a text that gives every key, each in a line of its own.
Origins line_of_every_key() {
  Origins origins;
  for (const Key& key : keys()) origins[std::string(key.path)] = "r.yaml:" + std::to_string(origins.size() + 1);
  return origins;
}

TEST(ValidateTest, EveryGateRefusesWithItsCodeItsLineAndANextStep) {
  using base::Code;
  const std::vector<Gate> gates = {
      {"depth", Code::E1003, "model.depth", [](Recipe& r) { r.model.depth = 0; }, ""},
      {"hidden", Code::E1003, "model.hidden", [](Recipe& r) { r.model.hidden = 0; }, ""},
      {"vocab", Code::E1003, "model.vocab", [](Recipe& r) { r.model.vocab = 1; }, ""},
      {"eps", Code::E1003, "model.norm_eps", [](Recipe& r) { r.model.norm_eps = 0; }, ""},
      {"pattern", Code::E1006, "model.pattern", [](Recipe& r) { r.model.pattern = "AXE"; }, ""},
      {"kv heads", Code::E1005, "model.attention.kv_heads",
       [](Recipe& r) { r.model.config<blocks::Attention>().kv_heads = 3; }, "set model.attention.kv_heads: 2"},
      {"no heads", Code::E1003, "model.attention.heads",
       [](Recipe& r) { r.model.config<blocks::Attention>().heads = 0; }, ""},
      {"odd rope", Code::E1005, "model.attention.head_dim",
       [](Recipe& r) { r.model.config<blocks::Attention>().head_dim = 7; },
       "set model.attention.head_dim: 8, or model.attention.rope: false"},
      {"window", Code::E1003, "model.attention.window",
       [](Recipe& r) { r.model.config<blocks::Attention>().window = -1; }, ""},
      {"turned channels", Code::E1005, "model.attention.rotary_dim",
       [](Recipe& r) { r.model.config<blocks::Attention>().rotary_dim = 9; }, "set model.attention.rotary_dim: 8"},
      {"turned without rope", Code::E1003, "model.attention.rotary_dim",
       [](Recipe& r) {
         r.model.config<blocks::Attention>().rope = false, r.model.config<blocks::Attention>().rotary_dim = 4;
       },
       "set model.attention.rope: true"},
      {"unread rope factor", Code::E1003, "model.attention.rope_factor",
       [](Recipe& r) { r.model.config<blocks::Attention>().rope_factor = 8; }, ""},
      {"unread amplitude", Code::E1003, "model.attention.rope_amplitude",
       [](Recipe& r) {
         r.model.config<blocks::Attention>().rope_scaling = blocks::RopeScaling::linear,
         r.model.config<blocks::Attention>().rope_amplitude = 2;
       },
       ""},
      {"rope of no length", Code::E1003, "model.attention.rope_original_length",
       [](Recipe& r) { r.model.config<blocks::Attention>().rope_scaling = blocks::RopeScaling::yarn; }, ""},
      {"rope turns", Code::E1003, "model.attention.rope_slow_turns",
       [](Recipe& r) {
         r.model.config<blocks::Attention>().rope_scaling = blocks::RopeScaling::llama3;
         r.model.config<blocks::Attention>().rope_original_length = 64,
         r.model.config<blocks::Attention>().rope_slow_turns = 4;
       },
       ""},
      {"norm over heads", Code::E1003, "model.attention.qk_norm_over",
       [](Recipe& r) { r.model.config<blocks::Attention>().qk_norm_over = blocks::NormOver::heads; },
       "set model.attention.qk_norm: true"},
      {"unread clamp", Code::E1003, "model.feed_forward.clamp_limit",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().clamp_limit = 5; }, ""},
      {"bias of no choice", Code::E1003, "model.feed_forward.selection_bias",
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().routing = blocks::RoutedBy::experts,
         r.model.config<blocks::FeedForward>().capacity_factor = 1;
         r.model.config<blocks::FeedForward>().selection_bias = true;
       },
       ""},
      {"groups", Code::E1005, "model.feed_forward.expert_groups",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().expert_groups = 4; },
       "set model.feed_forward.expert_groups: 1"},
      {"best groups", Code::E1005, "model.feed_forward.top_groups",
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().expert_groups = 2, r.model.config<blocks::FeedForward>().top_groups = 3;
       },
       "set model.feed_forward.top_groups: 2"},
      {"sparse size", Code::E1003, "model.attention.sparse_block",
       [](Recipe& r) { r.model.config<blocks::Attention>().sparse_local = 2; }, ""},
      {"sparse local", Code::E1003, "model.attention.sparse_local",
       [](Recipe& r) { r.model.config<blocks::Attention>().sparse_block = 4; }, ""},
      {"sparse fit", Code::E1005, "model.attention.sparse_block",
       [](Recipe& r) {
         r.model.config<blocks::Attention>().sparse_block = 5, r.model.config<blocks::Attention>().sparse_local = 1;
       },
       "set model.attention.sparse_block: 4"},
      {"groups", Code::E1005, "model.mamba.groups", [](Recipe& r) { r.model.config<blocks::Mamba>().groups = 3; },
       "set model.mamba.groups: 2"},
      {"chunk", Code::E1003, "model.mamba.chunk", [](Recipe& r) { r.model.config<blocks::Mamba>().chunk = 0; }, ""},
      {"dt", Code::E1003, "model.mamba.dt_min", [](Recipe& r) { r.model.config<blocks::Mamba>().dt_min = 1; }, ""},
      {"dt limit", Code::E1003, "model.mamba.dt_limit_low",
       [](Recipe& r) {
         r.model.config<blocks::Mamba>().dt_limit_high = 1, r.model.config<blocks::Mamba>().dt_limit_low = 2;
       },
       ""},
      {"top_k high", Code::E1005, "model.feed_forward.top_k",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().top_k = 5; }, "set model.feed_forward.top_k: 4"},
      {"top_k low", Code::E1003, "model.feed_forward.top_k",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().top_k = 0; }, ""},
      {"intermediate", Code::E1003, "model.feed_forward.intermediate",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().intermediate = 0; }, ""},
      {"capacity", Code::E1003, "model.feed_forward.capacity_factor",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().capacity_factor = -1; }, ""},
      {"expert choice dropless", Code::E1005, "model.feed_forward.capacity_factor",
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().routing = blocks::RoutedBy::experts,
         r.model.config<blocks::FeedForward>().capacity_factor = 0;
       },
       "set model.feed_forward.capacity_factor: 1"},
      {"expert choice overfull", Code::E1005, "model.feed_forward.capacity_factor",
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().routing = blocks::RoutedBy::experts,
         r.model.config<blocks::FeedForward>().capacity_factor = 2.5;
       },
       ""},
      {"expert choice bias", Code::E1003, "model.feed_forward.bias_rate",
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().routing = blocks::RoutedBy::experts,
         r.model.config<blocks::FeedForward>().bias_rate = 0.1;
       },
       ""},
      {"dense shared", Code::E1003, "model.feed_forward.shared_intermediate",
       [](Recipe& r) {
         r.model.config<blocks::FeedForward>().experts = 0,
         r.model.config<blocks::FeedForward>().shared_intermediate = 8;
       },
       ""},
      {"recurrent", Code::E1005, "model.recurrent.heads",
       [](Recipe& r) { r.model.config<blocks::Recurrent>().heads = 5; }, "set model.recurrent.heads: 4"},
      {"batch", Code::E1003, "train.batch", [](Recipe& r) { r.train.batch = 0; }, ""},
      {"sequence", Code::E1003, "train.sequence", [](Recipe& r) { r.train.sequence = 0; }, ""},
      {"beta", Code::E1003, "optimizer.beta2", [](Recipe& r) { r.optimizer.beta2 = 1; }, ""},
      {"infinite rate", Code::E1003, "optimizer.lr", [](Recipe& r) { r.optimizer.lr = HUGE_VAL; }, ""},
      {"depth high", Code::E1003, "model.depth", [](Recipe& r) { r.model.depth = 1'000'000'000; }, ""},
      {"hidden high", Code::E1003, "model.hidden", [](Recipe& r) { r.model.hidden = (1 << 20) + 1; }, ""},
      {"vocab high", Code::E1003, "model.vocab", [](Recipe& r) { r.model.vocab = (1 << 24) + 1; }, ""},
      {"heads high", Code::E1003, "model.attention.heads",
       [](Recipe& r) { r.model.config<blocks::Attention>().heads = (1 << 16) + 1; }, ""},
      {"head_dim high", Code::E1003, "model.mamba.head_dim",
       [](Recipe& r) { r.model.config<blocks::Mamba>().head_dim = (1 << 16) + 1; }, ""},
      {"experts high", Code::E1003, "model.feed_forward.experts",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().experts = (1 << 16) + 1; }, ""},
      {"capacity high", Code::E1003, "model.feed_forward.capacity_factor",
       [](Recipe& r) { r.model.config<blocks::FeedForward>().capacity_factor = 1e300; }, ""},
      {"batch high", Code::E1003, "train.batch", [](Recipe& r) { r.train.batch = (1 << 20) + 1; }, ""},
      {"sequence high", Code::E1003, "train.sequence", [](Recipe& r) { r.train.sequence = INT64_MAX; }, ""},
      {"micro-steps high", Code::E1003, "train.micro_steps", [](Recipe& r) { r.train.micro_steps = (1 << 20) + 1; },
       ""},
      {"steps high", Code::E1003, "train.steps", [](Recipe& r) { r.train.steps = 1'000'000'001; }, ""},
      {"threads high", Code::E1003, "train.threads", [](Recipe& r) { r.train.threads = 1025; }, ""},
      {"activation size", Code::E1005, "train.batch",
       [](Recipe& r) { r.train.batch = 1 << 20, r.train.sequence = 1 << 20; }, "set train.batch: 4096"},
      {"sequence size", Code::E1005, "train.sequence",
       [](Recipe& r) { r.model.vocab = 1 << 20, r.train.sequence = 1 << 22; },
       "set train.batch: 1 and train.sequence: 1048576"},
      {"weight size", Code::E1005, "model.vocab", [](Recipe& r) { r.model.hidden = 1 << 20, r.model.vocab = 1 << 22; },
       "set model.vocab: 1048576"},
      {"model size", Code::E1005, "model.depth",
       [](Recipe& r) { r.model.vocab = r.model.hidden = 1 << 20, r.model.depth = 4096; }, "set model.depth: 1024"},
      {"expert size", Code::E1005, "model.feed_forward.intermediate",
       [](Recipe& r) {
         r.model.hidden = 1 << 20, r.model.config<blocks::FeedForward>().experts = 1 << 16,
         r.model.config<blocks::FeedForward>().intermediate = 100;
       },
       "set model.feed_forward.intermediate: 16"},
      {"reshard one", Code::E1003, "layout.reshard_after_forward",
       [](Recipe& r) { r.layout.reshard_after_forward = {.over = ReshardAfterForward::Over::group, .chips = 1}; }, ""},
      {"precision of a type that no product is in", Code::E1003, "train.precision",
       [](Recipe& r) { r.train.precision = ir::DType::i32; }, ""},
      {"zero", Code::E1003, "layout.zero", [](Recipe& r) { r.layout.zero = 4; }, "set layout.zero: 3"},
      {"no chips", Code::E1003, "layout.tensor_parallel", [](Recipe& r) { r.layout.tensor_parallel = 0; },
       "set layout.tensor_parallel: 1"},
      {"negative chips", Code::E1003, "layout.data_parallel", [](Recipe& r) { r.layout.data_parallel = -1; },
       "set layout.data_parallel: 1"},
      {"many chips", Code::E1003, "layout.data_parallel", [](Recipe& r) { r.layout.data_parallel = 70000; },
       "set layout.data_parallel: 65536"},
      {"offload of a block that is not there", Code::E1003, "layout.offload_blocks",
       [](Recipe& r) {
         r.layout.offload_blocks = {"A", "X"};
       },
       "name blocks that the model has, or remove it"},
      {"offload of no letter", Code::E1003, "layout.offload_blocks", [](Recipe& r) { r.layout.offload_blocks = {""}; },
       "name blocks that the model has, or remove it"},
      {"offload of a block twice", Code::E1003, "layout.offload_blocks",
       [](Recipe& r) {
         r.layout.offload_blocks = {"A", "A"};
       },
       "remove one of the two"},
      {"optimizer", Code::E1003, "optimizer.name", [](Recipe& r) { r.optimizer.name = "adam"; },
       "did you mean 'adamw'?"},
      {"no optimizer of that name", Code::E1003, "optimizer.name", [](Recipe& r) { r.optimizer.name = "lion"; }, ""},
      {"another optimizer's key", Code::E1003, "optimizer.momentum", [](Recipe& r) { r.optimizer.momentum = 0.5; },
       "remove optimizer.momentum, or set optimizer.name: sgd"},
      {"a key of muon", Code::E1003, "optimizer.muon.iterations", [](Recipe& r) { r.optimizer.muon.iterations = 3; },
       "remove optimizer.muon.iterations, or set optimizer.name: muon"},
      {"schedule", Code::E1003, "optimizer.schedule", [](Recipe& r) { r.optimizer.schedule = "cosin"; },
       "did you mean 'cosine'?"},
      {"a key of wsd", Code::E1003, "optimizer.wsd.decay", [](Recipe& r) { r.optimizer.wsd.decay = 0.5; },
       "remove optimizer.wsd.decay, or set optimizer.schedule: wsd"},
      {"a floor that constant has not", Code::E1003, "optimizer.min_lr_ratio",
       [](Recipe& r) { r.optimizer.schedule = "constant", r.optimizer.min_lr_ratio = 0.5; },
       "remove optimizer.min_lr_ratio, or set optimizer.schedule: cosine"},
      {"warm-up into the decay", Code::E1003, "optimizer.warmup_steps",
       [](Recipe& r) { r.optimizer.schedule = "wsd", r.train.steps = 10, r.optimizer.warmup_steps = 9; },
       "set optimizer.warmup_steps: 8, or lower optimizer.wsd.decay"},
      {"kind of parameter", Code::E1003, "optimizer.no_decay", [](Recipe& r) { r.optimizer.no_decay = {"nrom"}; },
       "did you mean 'norm'?"},
      {"kind of parameter twice", Code::E1003, "optimizer.no_decay",
       [](Recipe& r) {
         r.optimizer.no_decay = {"norm", "norm"};
       },
       "remove one of the two"},
      {"a key sgd does not read", Code::E1003, "optimizer.beta1",
       [](Recipe& r) { r.optimizer.name = "sgd", r.optimizer.beta1 = 0.8; },
       "remove optimizer.beta1, or set optimizer.name: adamw"},
      {"adapters wider than the model", Code::E1005, "lora.rank",
       [](Recipe& r) { r.model.lora.rank = r.model.hidden + 1; }, ""},
      {"adapters of nothing", Code::E1003, "lora.targets", [](Recipe& r) { r.model.lora = {.rank = 2, .targets = {}}; },
       "set lora.targets: [block*], or lora.rank: 0"},
      {"a target twice", Code::E1003, "lora.targets",
       [](Recipe& r) {
         r.model.lora = {.rank = 2, .targets = {"*.wq", "*.wq"}};
       },
       "remove one of the two"},
      {"adapters that count nothing", Code::E1003, "lora.alpha", [](Recipe& r) { r.model.lora.alpha = 0; }, ""},
      {"limit of nothing", Code::E1003, "hardware.limits", [](Recipe& r) { r.hardware.limits = {"0=many"}; }, ""},
      {"limit of a chip twice", Code::E1003, "hardware.limits",
       [](Recipe& r) { r.hardware.limits = {"0=1MiB", "0=2MiB"}; }, "remove one of the two"},
      {"fault of no form", Code::E1003, "hardware.fail_allocation",
       [](Recipe& r) { r.hardware.fail_allocation = {"chip 0"}; }, ""},
      {"fault of no chip", Code::E1003, "hardware.fail_allocation",
       [](Recipe& r) { r.hardware.fail_allocation = {"chip 1 step 2"}; },
       "name chip 0, or raise a degree of the layout"},
      {"fault after the run", Code::E1003, "hardware.fail_allocation",
       [](Recipe& r) { r.hardware.fail_allocation = {"chip 0 step 10"}; },
       "name an earlier step, or raise train.steps"},
      {"fault twice", Code::E1003, "hardware.fail_allocation",
       [](Recipe& r) { r.hardware.fail_allocation = {"chip 0 step 2", "chip 0 step 2"}; }, "remove one of the two"},
      {"rung", Code::E1003, "ladder.rungs", [](Recipe& r) { r.ladder.rungs = {"bach"}; }, "did you mean 'batch'?"},
      {"rung twice", Code::E1003, "ladder.rungs", [](Recipe& r) { r.ladder.rungs = {"batch", "zero", "batch"}; },
       "remove one of the two"},
      {"ratio", Code::E1003, "optimizer.min_lr_ratio", [](Recipe& r) { r.optimizer.min_lr_ratio = 1.5; },
       "set optimizer.min_lr_ratio: 1"},
  };
  const Origins origins = line_of_every_key();
  for (const Gate& gate : gates) {
    Recipe recipe = small();
    gate.spoil(recipe);
    const base::Error error = validate_error(recipe, origins);
    EXPECT_EQ(error.code(), gate.code) << gate.name << ": " << error.what();
    ASSERT_TRUE(origins.contains(gate.path)) << gate.path;
    EXPECT_TRUE(error.problem().where.starts_with(origins.at(gate.path) + " " + gate.path))
        << gate.name << ": " << error.problem().where;
    EXPECT_FALSE(error.problem().next.empty()) << gate.name;
    if (!gate.next.empty()) {
      EXPECT_EQ(error.problem().next, gate.next) << gate.name;
    }
  }
}

TEST(ValidateTest, SectionsOfAbsentFamiliesAreNotLookedAt) {
  Recipe recipe = small();
  recipe.model.pattern = "AE";
  recipe.model.config<blocks::Mamba>() = {};
  recipe.model.config<blocks::Recurrent>() = {};
  EXPECT_NO_THROW(validate(recipe));
}

TEST(ValidateTest, OriginsNameLinesAndMissingKeys) {
  Recipe recipe = small();
  recipe.model.config<blocks::Attention>().kv_heads = 3;
  EXPECT_EQ(validate_error(recipe, {{{"model.attention.kv_heads", "r.yaml:9"}}}).problem().where,
            "r.yaml:9 model.attention.kv_heads");
  recipe.model.config<blocks::Attention>().kv_heads = 0;
  const base::Error missing = validate_error(recipe, {{{"name", "r.yaml:1"}}});
  EXPECT_EQ(missing.problem().where, "model.attention.kv_heads");
  EXPECT_EQ(missing.problem().got, "nothing: the key is not given");
  EXPECT_EQ(missing.problem().next, meaning_of(*find_key("model.attention.kv_heads"))) << "no value is near to none";
}

}  // namespace
}  // namespace megacpp::recipe
