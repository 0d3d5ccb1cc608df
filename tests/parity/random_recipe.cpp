// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/random_recipe.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "megacpp/program/recipe/parse.h"

namespace megacpp::testing_support {
namespace {

const std::string kBaseRecipe = "recipes/nam56r-tiny.yaml";

void draw_rope(Draw& draw, Overrides& overrides) {
  const bool turns = !draw.one_in(4);
  overrides.set("model.attention.rope", turns);
  if (!turns) return;
  overrides.set("model.attention.rotary_dim", draw.any_of<int64_t>({0, 2, 4}));
  const std::string scaling = draw.any_of({"none", "linear", "llama3", "yarn"});
  overrides.set("model.attention.rope_scaling", scaling);
  if (scaling != "none") overrides.set("model.attention.rope_factor", draw.any_of({2.0, 8.0}));
  if (scaling == "llama3" || scaling == "yarn") overrides.set("model.attention.rope_original_length", 8);
}

void draw_attention(Draw& draw, Overrides& overrides) {
  const int64_t heads = draw.any_of<int64_t>({2, 4, 6, 8});
  overrides.set("model.attention.heads", heads);
  overrides.set("model.attention.kv_heads", draw.divisor_of(heads));
  overrides.set("model.attention.head_dim", draw.any_of<int64_t>({4, 6, 8}));
  draw_rope(draw, overrides);
  const bool has_norm = draw.one_in(3);
  overrides.set("model.attention.qk_norm", has_norm);
  if (has_norm) overrides.set("model.attention.qk_norm_over", draw.any_of({"head", "heads"}));
  overrides.set("model.attention.qkv_bias", draw.one_in(3));
  overrides.set("model.attention.out_bias", draw.one_in(3));
  overrides.set("model.attention.sinks", draw.one_in(3));
  overrides.set("model.attention.softcap", draw.any_of({0.0, 0.0, 1.5}));
  overrides.set("model.attention.document_mask", draw.one_in(3));
  switch (draw.below(4)) {
    case 0:
      return overrides.set("model.attention.window", draw.between(1, 20));
    case 1:
      overrides.set("model.attention.sparse_block", 4);  // divides every sequence drawn
      overrides.set("model.attention.sparse_local", draw.between(1, 3));
      return overrides.set("model.attention.sparse_global", draw.between(0, 2));
    default:
      return;
  }
}

void draw_mamba(Draw& draw, Overrides& overrides) {
  const int64_t heads = draw.any_of<int64_t>({2, 4, 6, 8});
  overrides.set("model.mamba.heads", heads);
  overrides.set("model.mamba.groups", draw.divisor_of(heads));
  overrides.set("model.mamba.head_dim", draw.any_of<int64_t>({4, 8, 10}));
  overrides.set("model.mamba.state", draw.any_of<int64_t>({4, 8, 9}));
  overrides.set("model.mamba.conv_width", draw.between(1, 5));
  overrides.set("model.mamba.chunk", draw.any_of<int64_t>({3, 4, 8, 64}));
  overrides.set("model.mamba.norm_per_group", draw.one_in(2));
  overrides.set("model.mamba.conv_bias", draw.one_in(2));
}

void draw_experts(Draw& draw, Overrides& overrides) {
  const int64_t experts = draw.any_of<int64_t>({2, 3, 4, 6, 8});
  const bool experts_choose = draw.one_in(4);
  overrides.set("model.feed_forward.experts", experts);
  overrides.set("model.feed_forward.top_k", draw.between(1, std::min<int64_t>(experts, 3)));
  overrides.set("model.feed_forward.routing", experts_choose ? "expert_choice" : "token_choice");
  overrides.set("model.feed_forward.capacity_factor",
                experts_choose ? draw.any_of({0.5, 1.0}) : draw.any_of({0.0, 0.75, 1.0, 1.5}));
  overrides.set("model.feed_forward.scoring", draw.any_of({"softmax", "sigmoid"}));
  overrides.set("model.feed_forward.renormalise", draw.one_in(2));
  overrides.set("model.feed_forward.shared_intermediate", draw.any_of<int64_t>({0, 24, 31}));
  overrides.set("model.feed_forward.balance_loss", draw.any_of({0.0, 0.1}));
  overrides.set("model.feed_forward.balance_over", draw.any_of({"block", "model"}));
  overrides.set("model.feed_forward.z_loss", draw.any_of({0.0, 0.01}));
  overrides.set("model.feed_forward.bias_rate", experts_choose ? 0.0 : draw.any_of({0.0, 0.01}));
  if (experts_choose) return;
  overrides.set("model.feed_forward.routed_scale", draw.any_of({1.0, 2.5}));
  overrides.set("model.feed_forward.selection_bias", draw.one_in(3));
  if (experts < 6 || draw.one_in(2)) return;
  overrides.set("model.feed_forward.expert_groups", experts / 2);
  overrides.set("model.feed_forward.top_groups", draw.between(2, experts / 2));
}

bool draw_feed_forward(Draw& draw, Overrides& overrides) {
  const bool has_experts = !draw.one_in(3);
  overrides.set("model.feed_forward.activation", draw.any_of({"swiglu", "relu2", "geglu", "gelu", "clamped_swiglu"}));
  overrides.set("model.feed_forward.bias", draw.one_in(3));
  overrides.set("model.feed_forward.intermediate", draw.any_of<int64_t>({24, 32, 37}));
  if (has_experts) {
    draw_experts(draw, overrides);
  } else {
    overrides.set("model.feed_forward.experts", 0);
    overrides.set("model.feed_forward.shared_intermediate", 0);
  }
  return has_experts;
}

void draw_recurrent(Draw& draw, Overrides& overrides) {
  const int64_t heads = draw.any_of<int64_t>({2, 4, 6, 8});
  overrides.set("model.recurrent.heads", heads);
  overrides.set("model.recurrent.width", heads * draw.any_of<int64_t>({4, 5}));
  overrides.set("model.recurrent.conv_width", draw.between(1, 5));
}

/// Each prime of the number of chips goes to some axis.
void draw_degrees(Draw& draw, bool has_experts, Overrides& overrides) {
  std::vector<std::string> axes = {"data", "context", "tensor", "pipeline"};
  if (has_experts) axes.push_back("expert");
  std::vector<int64_t> degrees(axes.size(), 1);
  int64_t chips = draw.between(2, 8);
  for (int64_t prime = 2; chips > 1; ++prime)
    for (; chips % prime == 0; chips /= prime)
      degrees[static_cast<size_t>(draw.below(static_cast<int64_t>(axes.size())))] *= prime;
  for (size_t i = 0; i < axes.size(); ++i)
    if (degrees[i] > 1) overrides.set("layout." + axes[i] + "_parallel", degrees[i]);
}

}  // namespace

recipe::Recipe Overrides::recipe() const {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/" + kBaseRecipe, all_);
}

std::string Overrides::command() const {
  return fmt::format("megacpp train {} --set {}", kBaseRecipe, fmt::join(all_, " --set "));
}

void draw_training(Draw& draw, Overrides& overrides) {
  overrides.set("train.batch", draw.between(2, 9));
  overrides.set("train.sequence", draw.any_of<int64_t>({16, 24, 32, 40}));
  overrides.set("train.micro_steps", draw.between(1, 3));
  overrides.set("train.steps", 3);
  overrides.set("train.threads", 2);
  overrides.set("train.seed", draw.below(1000));
  for (const char* family : {"A", "E", "M", "R"})
    overrides.set(fmt::format("train.recompute.{}", family), draw.any_of({"none", "selective", "full"}));
  overrides.set("optimizer.warmup_steps", 0);
  overrides.set("optimizer.clip", draw.any_of({0.0, 0.1}));
  overrides.set("optimizer.eps", 1e-6);  // above rounding: Adam would make a full step of a gradient that is only that
}

bool draw_model(Draw& draw, Overrides& overrides) {
  std::string pattern;
  for (int64_t depth = draw.between(2, 6); depth > 0; --depth) pattern += draw.any_of({'A', 'E', 'M', 'R'});
  overrides.set("model.pattern", pattern);
  overrides.set("model.depth", pattern.size());
  overrides.set("model.hidden", draw.any_of<int64_t>({24, 32, 40}));
  overrides.set("model.vocab", draw.any_of<int64_t>({256, 257, 262}));
  overrides.set("model.tie_embeddings", draw.one_in(2));
  overrides.set("model.embed_scale", draw.any_of({1.0, 4.0}));
  overrides.set("model.norm_place", draw.any_of({"before", "before", "after", "both"}));
  overrides.set("model.norm_plus_one", draw.one_in(3));
  overrides.set("model.residual_scale", draw.any_of({1.0, 0.5}));
  overrides.set("model.logits_divisor", draw.any_of({1.0, 3.0}));
  overrides.set("model.logits_softcap", draw.any_of({0.0, 5.0}));
  overrides.set("model.init_std", 0.1);
  overrides.set("model.z_loss", draw.any_of({0.0, 0.001}));
  draw_attention(draw, overrides);
  draw_mamba(draw, overrides);
  const bool has_experts = draw_feed_forward(draw, overrides);
  draw_recurrent(draw, overrides);
  return has_experts && pattern.find('E') != std::string::npos;
}

void draw_layout(Draw& draw, bool has_experts, Overrides& overrides) {
  draw_degrees(draw, has_experts, overrides);
  overrides.set("layout.policy", draw.any_of({"spmd", "spmd", "fsdp", "megatron"}));
  overrides.set("layout.zero", draw.between(-1, 3));
  overrides.set("layout.sequence_parallel", draw.one_in(2));
  overrides.set("layout.reshard_after_forward", draw.any_of({"true", "false", "2"}));
  overrides.set("layout.context_attention", draw.any_of({"ring", "alltoall"}));
  overrides.set("layout.load_balance", draw.one_in(2));
  overrides.set("layout.dispatcher", draw.any_of({"alltoall", "allgather"}));
  const int64_t expert_tensor = draw.any_of<int64_t>({0, 0, 1, 2});
  overrides.set("layout.expert_tensor_parallel", has_experts ? expert_tensor : 0);
  overrides.set("layout.schedule", draw.any_of({"gpipe", "1f1b", "interleaved", "zero_bubble"}));
  overrides.set("layout.virtual_stages", draw.any_of<int64_t>({1, 1, 2}));
  overrides.set("layout.prefetch", draw.between(0, 3));
  overrides.set("layout.bucket_bytes", draw.any_of<int64_t>({0, 0, 1000, 20000}));
}

}  // namespace megacpp::testing_support
