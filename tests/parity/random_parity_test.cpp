// SPDX-License-Identifier: Apache-2.0
// Random small models in random layouts train as on one chip. A seed fixes everything; a failure prints the line
// that repeats it, and the command that trains the same model in the same layout.
// More seeds: MEGACPP_RANDOM_SEEDS=1000 build/dev/bin/parity_test --gtest_filter='*RandomParity*'
//
// A layout that a gate refuses is drawn again, and so is a model that stands on an edge; see Comparison.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/error.h"
#include "megacpp/base/philox.h"
#include "megacpp/plan/plan.h"
#include "megacpp/recipe/parse.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::testing_support {
namespace {

constexpr int64_t kDefaultSeeds = 40;
constexpr int64_t kMaxLayouts = 300;  // drawn for one model until one is legal
constexpr int64_t kMaxModels = 3;     // drawn for one seed until one is away from every edge

const std::string kBaseRecipe = "recipes/nam56r-tiny.yaml";

class Draw {
 public:
  Draw(int64_t seed, int64_t attempt)
      : random_(static_cast<uint64_t>(seed), "random parity " + std::to_string(attempt)) {}

  int64_t below(int64_t count) {
    return static_cast<int64_t>((uint64_t{random_.word(next_++)} * static_cast<uint64_t>(count)) >> 32);
  }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  template <typename T>
  T any_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  bool one_in(int64_t count) { return below(count) == 0; }
  int64_t divisor_of(int64_t whole) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= whole; ++d)
      if (whole % d == 0) divisors.push_back(d);
    return divisors[static_cast<size_t>(below(static_cast<int64_t>(divisors.size())))];
  }

 private:
  base::Philox random_;
  uint64_t next_ = 0;
};

/// Overrides of the base recipe.
class Overrides {
 public:
  template <typename T>
  void set(const std::string& key, const T& value) {
    all_.push_back(fmt::format("{}={}", key, value));
  }
  recipe::Recipe recipe() const { return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/" + kBaseRecipe, all_); }
  std::string command() const {
    return fmt::format("megacpp train {} --set {}", kBaseRecipe, fmt::join(all_, " --set "));
  }

 private:
  std::vector<std::string> all_;
};

void draw_attention(Draw& draw, Overrides& overrides) {
  const int64_t heads = draw.any_of<int64_t>({2, 4, 6, 8});
  overrides.set("model.attention.heads", heads);
  overrides.set("model.attention.kv_heads", draw.divisor_of(heads));
  overrides.set("model.attention.head_dim", draw.any_of<int64_t>({4, 6, 8}));
  overrides.set("model.attention.rope", !draw.one_in(4));
  overrides.set("model.attention.qk_norm", draw.one_in(3));
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
}

bool draw_feed_forward(Draw& draw, Overrides& overrides) {
  const bool has_experts = !draw.one_in(3);
  overrides.set("model.feed_forward.activation", draw.any_of({"swiglu", "relu2"}));
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

/// Whether it has experts that a layout can spread.
bool draw_model(Draw& draw, Overrides& overrides) {
  std::string pattern;
  for (int64_t depth = draw.between(2, 6); depth > 0; --depth) pattern += draw.any_of({'A', 'E', 'M', 'R'});
  overrides.set("model.pattern", pattern);
  overrides.set("model.depth", pattern.size());
  overrides.set("model.hidden", draw.any_of<int64_t>({24, 32, 40}));
  overrides.set("model.vocab", draw.any_of<int64_t>({256, 257, 262}));
  overrides.set("model.tie_embeddings", draw.one_in(2));
  overrides.set("model.embed_scale", draw.any_of({1.0, 4.0}));
  overrides.set("model.init_std", 0.1);
  overrides.set("model.z_loss", draw.any_of({0.0, 0.001}));
  draw_attention(draw, overrides);
  draw_mamba(draw, overrides);
  const bool has_experts = draw_feed_forward(draw, overrides);
  draw_recurrent(draw, overrides);
  return has_experts && pattern.find('E') != std::string::npos;
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

/// Whether the gates between recipe and plan let it pass. Whatever a later stage refuses is a bug.
bool is_legal(const recipe::Recipe& recipe) {
  try {
    plan::make_plan(recipe);
    return true;
  } catch (const base::Error& error) {
    if (error.code() >= base::Code::E1401 && error.code() <= base::Code::E1407) return false;
    throw;
  }
}

struct Drawn {
  recipe::Recipe recipe;
  std::string command;
  int64_t refused = 0;  // layouts, before this one
};

std::optional<Drawn> draw_case(int64_t seed, int64_t attempt) {
  Draw draw(seed, attempt);
  Overrides model;
  const bool has_experts = draw_model(draw, model);
  draw_training(draw, model);
  for (int64_t refused = 0; refused < kMaxLayouts; ++refused) {
    Overrides all = model;
    draw_layout(draw, has_experts, all);
    recipe::Recipe recipe = all.recipe();
    if (is_legal(recipe)) return Drawn{std::move(recipe), all.command(), refused};
  }
  return std::nullopt;
}

int64_t seeds() {
  const char* wish = std::getenv("MEGACPP_RANDOM_SEEDS");
  return wish == nullptr ? kDefaultSeeds : std::strtoll(wish, nullptr, 10);
}

class RandomParityTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomParityTest, testing::Range<int64_t>(0, seeds()),
                         [](const auto& info) { return fmt::format("seed{}", info.param); });

TEST_P(RandomParityTest, TrainsAsOnOneChip) {
  const std::string repeat =
      fmt::format("MEGACPP_RANDOM_SEEDS={} build/dev/bin/parity_test --gtest_filter='*RandomParity*/seed{}'",
                  GetParam() + 1, GetParam());
  for (int64_t attempt = 0; attempt < kMaxModels; ++attempt) {
    std::optional<Drawn> drawn;
    try {
      drawn = draw_case(GetParam(), attempt);
      ASSERT_TRUE(drawn) << "none of " << kMaxLayouts << " layouts is legal\n" << repeat;
      RecordProperty("refused_layouts", std::to_string(drawn->refused));
      const Comparison comparison = compare_with_one_chip(drawn->recipe);
      if (!comparison.on_edge) {
        EXPECT_EQ(comparison.problems, "") << repeat << "\n" << drawn->command;
        return;
      }
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << repeat << (drawn ? "\n" + drawn->command : "");
    }
    std::cout << "on an edge, drawn again: " << drawn->command << "\n";
  }
  FAIL() << "each of " << kMaxModels << " models stands on an edge";
}

}  // namespace
}  // namespace megacpp::testing_support
