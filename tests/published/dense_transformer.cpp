// SPDX-License-Identifier: Apache-2.0
#include "tests/published/dense_transformer.h"

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::published {

recipe::Recipe dense_transformer(const Sizes& sizes, const recipe::Layout& layout) {
  recipe::Recipe recipe;
  recipe.name = "dense";
  recipe.model.name = recipe.name;
  recipe.model.pattern = "AE";
  recipe.model.depth = 2 * sizes.layers;
  recipe.model.hidden = sizes.hidden;
  recipe.model.vocab = sizes.vocab;
  recipe.model.tie_embeddings = true;
  recipe.model.config<blocks::Attention>() = {
      .heads = sizes.heads, .kv_heads = sizes.heads, .head_dim = sizes.hidden / sizes.heads, .rope = false};
  recipe.model.config<blocks::FeedForward>() = {.activation = blocks::ActivationFunction::relu2,
                                                .intermediate = sizes.inner};
  recipe.train.batch = sizes.batch * layout.data_parallel;
  recipe.train.sequence = sizes.sequence;
  recipe.train.micro_steps = 2;
  recipe.train.steps = 1;
  recipe.train.precision = ir::DType::bf16;
  recipe.layout = layout;
  return recipe;
}

memory::MemoryPlan plan_of(const recipe::Recipe& recipe) {
  return compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(1)).largest().memory;
}

int64_t bytes_of(const memory::MemoryPlan& plan, ir::Role role) {
  int64_t bytes = 0;
  for (const memory::Item& item : plan.items)
    if (item.role == role) bytes += item.bytes;
  return bytes;
}

Kept kept_bytes(recipe::Recipe recipe, const std::function<bool(const std::string&)>& is_wanted) {
  const auto bytes = [&](const memory::MemoryPlan& plan, ir::Role role) {
    int64_t sum = 0;
    for (const memory::Item& item : plan.items)
      if (item.role == role && is_wanted(item.block)) sum += item.bytes;
    return sum;
  };
  const memory::MemoryPlan once = plan_of(recipe);
  recipe.train.batch *= 2;
  const memory::MemoryPlan twice = plan_of(recipe);
  const auto growth = [&](ir::Role role) { return bytes(twice, role) - bytes(once, role); };
  const int64_t activations = growth(ir::Role::activation), gathered = growth(ir::Role::collective);
  return {.of_tokens = activations + gathered,
          .of_weights = bytes(once, ir::Role::weight_copy) + bytes(once, ir::Role::activation) - activations};
}

}  // namespace megacpp::published
