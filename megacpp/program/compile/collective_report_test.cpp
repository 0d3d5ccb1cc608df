// SPDX-License-Identifier: Apache-2.0
// Collectives counted as the textbooks count them, and every advice tried out: the change removes what it says.
#include "megacpp/program/compile/collective_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/plain_target.h"

namespace megacpp::compile {
namespace {

using testing_support::plain_target;

constexpr int64_t kPairs = 3;  // of A and E
constexpr int64_t kSequences = 4, kSequence = 64, kHidden = 32;
constexpr int64_t kStreamBytes = 4 * kSequences * kSequence * kHidden;

// nam52-tiny, smaller still.
recipe::Recipe dense_recipe(const std::vector<std::string>& overrides) {
  recipe::Recipe recipe;
  recipe.name = "dense";
  recipe.model = {.name = "dense", .pattern = "AE", .depth = 2 * kPairs, .hidden = kHidden, .vocab = 32};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 4, .head_dim = 8};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 32};
  recipe.train = {.batch = kSequences, .sequence = kSequence, .micro_steps = 2, .steps = 1};
  recipe::apply_overrides(recipe, overrides);
  return recipe;
}

// nam56r-tiny, smaller still: its tile of all four families.
constexpr int64_t kExpertBlocks = 5, kMambaBlocks = 3, kRecurrentBlocks = 1;

recipe::Recipe hybrid_recipe(const std::vector<std::string>& overrides) {
  recipe::Recipe recipe = dense_recipe({});
  recipe.name = recipe.model.name = "hybrid";
  recipe.model.pattern = "AEMEAEMEAEMR";
  recipe.model.depth = 12;
  recipe.model.config<blocks::Mamba>() = {.heads = 4, .head_dim = 16, .state = 8, .groups = 2, .chunk = 8};
  recipe.model.config<blocks::Recurrent>() = {.width = kHidden, .heads = 4};
  recipe.model.config<blocks::FeedForward>() = {
      .intermediate = 32, .experts = 4, .top_k = 2, .shared_intermediate = 32};
  recipe::apply_overrides(recipe, overrides);
  return recipe;
}

std::vector<CollectiveRow> report_on(const Compiled& compiled, const recipe::Recipe& recipe) {
  return collective_report(compiled, plan::make_plan(recipe), plan::changes_to(recipe));
}

std::vector<CollectiveRow> rows_of(const recipe::Recipe& recipe) {
  return report_on(compile_training(plan::make_plan(recipe), plain_target()), recipe);
}

std::vector<CollectiveRow> report_of(const std::vector<std::string>& overrides) {
  return rows_of(dense_recipe(overrides));
}

struct Query {
  Phase phase = Phase::forward;
  std::string kind;
  std::string where;  // a leading part of the scope
};

struct Found {
  int64_t calls = 0;
  int64_t bytes = 0;
  bool operator==(const Found&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Found& found) {
  return out << found.calls << " calls, " << found.bytes << " bytes";
}

Found find(const std::vector<CollectiveRow>& rows, const Query& query) {
  Found found;
  for (const CollectiveRow& row : rows)
    if (row.phase == query.phase && row.kind == query.kind && row.where.starts_with(query.where)) {
      found.calls += row.calls;
      found.bytes += row.total_bytes();
    }
  return found;
}

TEST(CollectiveReportTest, OneChipHasNone) { EXPECT_TRUE(report_of({}).empty()); }

TEST(CollectiveReportTest, TotalsByAxesAndKindAreTheRowsOfAStep) {
  const recipe::Recipe recipe = hybrid_recipe({"layout.data_parallel=2", "layout.tensor_parallel=2", "layout.zero=3"});
  const Compiled compiled = compile_training(plan::make_plan(recipe), plain_target());
  int64_t bytes = 0;
  std::set<std::tuple<int64_t, std::string, std::string>> seen;
  for (const CollectiveTotal& total : collective_totals(compiled)) {
    bytes += total.bytes;
    EXPECT_GT(total.calls, 0) << total.kind;
    EXPECT_TRUE(seen.emplace(total.stage, total.axes, total.kind).second) << total.kind << " over " << total.axes;
  }
  EXPECT_EQ(bytes, step_bytes(report_on(compiled, recipe), recipe.train.micro_steps));
  EXPECT_TRUE(collective_totals(compile_training(plan::make_plan(dense_recipe({})), plain_target())).empty());
}

TEST(CollectiveReportTest, ALetterOfTheRecipeIsExplainedByItsFamily) {
  recipe::Recipe recipe = dense_recipe({"layout.context_parallel=2"});
  recipe.model.pattern = "AEGE";
  recipe.model.letters['G'] = {.family = "A", .settings = {{"attention.kv_heads", "2"}}};
  int64_t around_ring = 0;
  for (const CollectiveRow& row : rows_of(recipe))
    if (row.where.starts_with("block*.G") && row.kind == "permute") {
      EXPECT_EQ(row.removal.purpose, "keys and values around the ring");
      around_ring += row.calls;
    }
  EXPECT_GT(around_ring, 0);
}

TEST(CollectiveReportTest, TensorParallelReducesTwicePerPairEachWay) {
  const auto rows = report_of({"layout.tensor_parallel=2", "layout.sequence_parallel=false"});
  const Found one_per_block{kPairs, kPairs * kStreamBytes};  // 2 (n - 1) / n of the stream, n = 2
  for (const char* family : {"block*.A", "block*.E"})
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      EXPECT_EQ(find(rows, {phase, "all_reduce", family}), one_per_block) << family << " " << phase_name(phase);
      EXPECT_EQ(find(rows, {phase, "all_gather", family}).calls, 0) << family << " " << phase_name(phase);
    }
}

TEST(CollectiveReportTest, SequenceParallelSendsAsManyBytesInGathersAndScatters) {
  const auto whole = report_of({"layout.tensor_parallel=2", "layout.sequence_parallel=false"});
  const auto split = report_of({"layout.tensor_parallel=2"});
  for (const char* family : {"block*.A", "block*.E"})
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const Found gathers = find(split, {phase, "all_gather", family});
      const Found scatters = find(split, {phase, "reduce_scatter", family});
      EXPECT_EQ(gathers.calls, kPairs) << family << " " << phase_name(phase);
      EXPECT_EQ(scatters.calls, kPairs) << family << " " << phase_name(phase);
      EXPECT_EQ(find(split, {phase, "all_reduce", family}).calls, 0) << family << " " << phase_name(phase);
      EXPECT_EQ(gathers.bytes + scatters.bytes, find(whole, {phase, "all_reduce", family}).bytes) << family;
    }
}

TEST(CollectiveReportTest, NarrowEmbeddingsTravelNarrow) {
  const auto rows = report_of({"layout.tensor_parallel=2", "train.precision=bf16"});
  const Found half_of_bf16{1, kStreamBytes / 2 / 2};
  EXPECT_EQ(find(rows, {Phase::forward, "reduce_scatter", "embed"}), half_of_bf16);
  EXPECT_EQ(find(rows, {Phase::backward, "all_gather", "embed"}), half_of_bf16);
}

TEST(CollectiveReportTest, WeightsAreNarrowedBeforeTheyAreGathered) {
  const std::vector<std::string> sharded = {"layout.data_parallel=2", "layout.zero=3"};
  std::vector<std::string> narrow = sharded;
  narrow.emplace_back("train.precision=bf16");
  const auto wide_rows = report_of(sharded), narrow_rows = report_of(narrow);
  for (const char* family : {"block*.A", "block*.E", "head"}) {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const Found wide = find(wide_rows, {phase, "all_gather", family});
      EXPECT_GT(wide.bytes, 0) << family;
      EXPECT_EQ(find(narrow_rows, {phase, "all_gather", family}), (Found{wide.calls, wide.bytes / 2})) << family;
    }
    const Query gradients{Phase::backward, "reduce_scatter", family};
    EXPECT_GT(find(wide_rows, gradients).bytes, 0) << family;
    EXPECT_EQ(find(narrow_rows, gradients), find(wide_rows, gradients)) << family << ": in f32 all the way";
  }
}

TEST(CollectiveReportTest, RoutedAndSharedExpertsEnterAndLeaveTogether) {
  const auto whole = rows_of(hybrid_recipe({"layout.tensor_parallel=2", "layout.sequence_parallel=false"}));
  const auto split = rows_of(hybrid_recipe({"layout.tensor_parallel=2"}));
  const Found streams{kExpertBlocks, kExpertBlocks * kStreamBytes}, halves{kExpertBlocks, streams.bytes / 2};
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    // Of routing weights only the gradients are sums over split experts: one number for each of a token's two choices.
    const Found weights =
        phase == Phase::forward ? Found{} : Found{kExpertBlocks, kExpertBlocks * kSequences * kSequence * 2 * 4};
    EXPECT_EQ(find(whole, {phase, "all_reduce", "block*.E.combine"}), weights) << phase_name(phase);
    EXPECT_EQ(find(split, {phase, "all_reduce", "block*.E"}), weights) << phase_name(phase);
    EXPECT_EQ(find(whole, {phase, "all_reduce", "block*.E"}),
              (Found{streams.calls + weights.calls, streams.bytes + weights.bytes}))
        << phase_name(phase);
    EXPECT_EQ(find(whole, {phase, "all_gather", "block*.E"}).calls, 0) << phase_name(phase);
    EXPECT_EQ(find(split, {phase, "all_gather", "block*.E"}), halves) << phase_name(phase);
    EXPECT_EQ(find(split, {phase, "reduce_scatter", "block*.E"}), halves) << phase_name(phase);
  }
}

TEST(CollectiveReportTest, KeyValueHeadsOnFewerChipsThanQueriesAddNoReduction) {
  auto rows = report_of({"model.attention.kv_heads=2", "layout.tensor_parallel=4", "layout.sequence_parallel=false"});
  // Chips that share a key-value head add up its gradients first.
  std::erase_if(rows, [](const CollectiveRow& row) { return row.bytes < kStreamBytes; });
  const Found one_per_block{kPairs, kPairs * kStreamBytes * 3 / 2};  // 2 (n - 1) / n of the stream, n = 4
  for (const Phase phase : {Phase::forward, Phase::backward})
    EXPECT_EQ(find(rows, {phase, "all_reduce", "block*.A"}), one_per_block) << phase_name(phase);
}

TEST(CollectiveReportTest, GradientsOfRoutedTokensAreScatteredWithThoseOfTheRouter) {
  const auto rows = report_of({"model.feed_forward.experts=4", "layout.tensor_parallel=2"});
  EXPECT_EQ(find(rows, {Phase::backward, "reduce_scatter", "block*.E"}), (Found{kPairs, kPairs * kStreamBytes / 2}));
}

TEST(CollectiveReportTest, ZeroThreeGathersTwiceAndScattersOncePerParameter) {
  constexpr int64_t kParametersOfA = 5, kParametersOfE = 4;  // with their norms
  const auto rows = report_of({"layout.data_parallel=2", "layout.zero=3"});
  for (const auto& [family, parameters] :
       {std::pair{"block*.A", kPairs * kParametersOfA}, {"block*.E", kPairs * kParametersOfE}}) {
    const Found forward = find(rows, {Phase::forward, "all_gather", family});
    EXPECT_EQ(forward.calls, parameters) << family;
    EXPECT_EQ(find(rows, {Phase::backward, "all_gather", family}), forward) << family;
    EXPECT_EQ(find(rows, {Phase::backward, "reduce_scatter", family}), forward) << family;
  }
  EXPECT_EQ(find(rows, {Phase::update, "all_gather", ""}).calls, 0);
  EXPECT_EQ(find(rows, {Phase::update, "reduce_scatter", ""}).calls, 0);
}

TEST(CollectiveReportTest, PolicyFsdpGathersTwiceAndScattersOncePerBlock) {
  const auto rows = report_of({"layout.policy=fsdp", "layout.data_parallel=2"});
  for (const char* family : {"block*.A", "block*.E"}) {
    const Found forward = find(rows, {Phase::forward, "all_gather", family});
    EXPECT_EQ(forward.calls, kPairs) << family;
    EXPECT_EQ(find(rows, {Phase::backward, "all_gather", family}), forward) << family;
    EXPECT_EQ(find(rows, {Phase::backward, "reduce_scatter", family}), forward) << family;
    for (const Phase phase : {Phase::forward, Phase::backward})
      EXPECT_EQ(find(rows, {phase, "all_reduce", family}).calls, 0) << family << " " << phase_name(phase);
  }
}

TEST(CollectiveReportTest, WeightsKeptInGroupsAreGatheredInsideThemAndScatteredOverAll) {
  constexpr int64_t kParameters = kPairs * 9;
  const auto whole = report_of({"layout.data_parallel=4", "layout.zero=3"});
  const auto rows = report_of({"layout.data_parallel=4", "layout.zero=3", "layout.reshard_after_forward=2"});
  const Found scattered = find(whole, {Phase::backward, "reduce_scatter", "block*"});
  EXPECT_EQ(scattered.calls, kParameters);
  EXPECT_EQ(find(rows, {Phase::backward, "reduce_scatter", "block*"}), scattered);
  EXPECT_EQ(find(rows, {Phase::backward, "all_reduce", "block*"}).calls, 0);
  // Forward: from four parts to two, from two to one, together as many bytes as at once. Backward: the second again.
  const Found gathered = find(whole, {Phase::forward, "all_gather", "block*"});
  EXPECT_EQ(find(rows, {Phase::forward, "all_gather", "block*"}), (Found{2 * kParameters, gathered.bytes}));
  EXPECT_EQ(find(rows, {Phase::backward, "all_gather", "block*"}), (Found{kParameters, gathered.bytes * 2 / 3}));
}

// Momentum is gathered instead of the weights that have moved along it: as many bytes, or half of them.
TEST(CollectiveReportTest, MuonGathersMatricesForItsIterationsAndSaysSo) {
  const std::vector<std::string> layout = {"layout.data_parallel=2", "layout.zero=1", "train.micro_steps=1"};
  const auto with = [&layout](std::vector<std::string> more) {
    more.insert(more.end(), layout.begin(), layout.end());
    return report_of(more);
  };
  const Found weights = find(with({}), {Phase::update, "all_gather", ""});
  const auto rows = with({"optimizer.name=muon", "layout.bucket_bytes=1"});
  EXPECT_EQ(find(rows, {Phase::update, "all_gather", ""}).bytes, weights.bytes);
  const Found half =
      find(with({"optimizer.name=muon", "optimizer.muon.precision=bf16"}), {Phase::update, "all_gather", ""});
  EXPECT_GT(half.bytes, weights.bytes / 2);
  EXPECT_LT(half.bytes, weights.bytes);
  const auto is_of_wq = [](const CollectiveRow& row) {
    return row.cause.starts_with("annotation for Newton-Schulz of block*.A.wq: ");
  };
  const auto row = std::ranges::find_if(rows, is_of_wq);
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->removal.purpose, "whole matrices for the optimizer");
  EXPECT_EQ(row->removal.changes, std::vector<std::string>{"layout.zero=0"});
}

TEST(CollectiveReportTest, WeightsKeptFromForwardToBackwardAreGatheredOnceInAPipelineToo) {
  const std::vector<std::string> layout = {"layout.pipeline_parallel=2", "layout.data_parallel=2", "layout.zero=3"};
  std::vector<std::string> kept = layout;
  kept.emplace_back("layout.reshard_after_forward=false");
  const Found gathered = find(report_of(layout), {Phase::backward, "all_gather", ""});
  EXPECT_GT(gathered.calls, 0);
  EXPECT_EQ(find(report_of(kept), {Phase::backward, "all_gather", ""}).calls, 0);
  EXPECT_EQ(find(report_of(kept), {Phase::forward, "all_gather", "block*"}),
            find(report_of(layout), {Phase::forward, "all_gather", "block*"}));
}

TEST(CollectiveReportTest, RecomputingABlockDoesNotGatherItsKeptWeightsAgain) {
  const auto rows = report_of({"layout.data_parallel=2", "layout.zero=3", "layout.reshard_after_forward=false",
                               "train.recompute.A=full", "train.recompute.E=selective"});
  EXPECT_GT(find(rows, {Phase::forward, "all_gather", "block*"}).calls, 0);
  EXPECT_EQ(find(rows, {Phase::backward, "all_gather", "block*"}).calls, 0);
}

TEST(CollectiveReportTest, GradientsOfASingleMicroStepTravelDuringTheBackwardPass) {
  const auto zero = [](const char* degree, const char* micro_steps) {
    return report_of({"layout.data_parallel=2", degree, micro_steps});
  };
  for (const auto& [degree, kind] : {std::pair{"layout.zero=0", "all_reduce"}, {"layout.zero=1", "reduce_scatter"}}) {
    const auto one = zero(degree, "train.micro_steps=1"), two = zero(degree, "train.micro_steps=2");
    EXPECT_EQ(find(one, {Phase::backward, kind, ""}).bytes, find(two, {Phase::update, kind, ""}).bytes) << degree;
    EXPECT_EQ(find(one, {Phase::update, kind, "block*"}).calls, 0) << degree;
  }
}

TEST(CollectiveReportTest, LowerZeroMovesGradientsAndWeightsOncePerStep) {
  const auto one = report_of({"layout.data_parallel=2", "layout.zero=1"});
  EXPECT_EQ(find(one, {Phase::update, "reduce_scatter", ""}).calls, 1) << "all in one bucket";
  EXPECT_EQ(find(one, {Phase::update, "all_gather", ""}), find(one, {Phase::update, "reduce_scatter", ""}));
  EXPECT_EQ(find(one, {Phase::backward, "reduce_scatter", ""}).calls, 0);
  const auto none = report_of({"layout.data_parallel=2", "layout.zero=0"});
  // Twice the bytes of a scatter: each chip gets the sums of all.
  EXPECT_EQ(find(none, {Phase::update, "all_reduce", "head"}).bytes,
            2 * find(one, {Phase::update, "reduce_scatter", "head"}).bytes);
  EXPECT_EQ(find(none, {Phase::update, "all_gather", ""}).calls, 0);
}

TEST(CollectiveReportTest, RingAttentionPassesKeysOnOncePerOtherChip) {
  const std::vector<std::vector<std::string>> orders = {
      {}, {"layout.load_balance=false"}, {"model.attention.document_mask=true"}};
  for (std::vector<std::string> overrides : orders) {
    overrides.emplace_back("layout.context_parallel=4");
    const auto rows = report_of(overrides);
    const Found forward{3 * kPairs, 3 * kPairs * 2 * kStreamBytes / 4};  // k and v of a chip
    EXPECT_EQ(find(rows, {Phase::forward, "permute", "block*.A"}), forward) << overrides[0];
    // Backward: gradients of keys and values too, and those once more to bring them home.
    EXPECT_EQ(find(rows, {Phase::backward, "permute", "block*.A"}).calls, (2 * 3 + 1) * kPairs) << overrides[0];
    for (const CollectiveRow& row : rows)
      EXPECT_FALSE(row.where.starts_with("block*.A") && row.kind != "permute" && row.phase != Phase::update)
          << row.kind << " @" << row.where << ": " << row.cause;
  }
}

TEST(CollectiveReportTest, RingAttentionStopsWhereTheWindowEnds) {
  for (const auto& [window, passes] : {std::pair{"model.attention.window=8", 1}, {"model.attention.window=18", 3}}) {
    const auto rows = report_of({"layout.context_parallel=8", "layout.load_balance=false", window});  // runs of 8
    EXPECT_EQ(find(rows, {Phase::forward, "permute", "block*.A"}).calls, passes * kPairs) << window;
    EXPECT_EQ(find(rows, {Phase::backward, "permute", "block*.A"}).calls, (2 * passes + 1) * kPairs) << window;
  }
}

TEST(CollectiveReportTest, MemoryAlongTheSequenceTakesOneGatherAndNeighboursTails) {
  for (const auto& [order, directions] : {std::pair{"layout.load_balance=false", 1}, {"layout.load_balance=true", 2}}) {
    const auto rows = rows_of(hybrid_recipe({"layout.context_parallel=4", order}));
    for (const auto& [family, blocks] : {std::pair{"block*.M", kMambaBlocks}, {"block*.R", kRecurrentBlocks}})
      for (const Phase phase : {Phase::forward, Phase::backward}) {
        EXPECT_EQ(find(rows, {phase, "all_gather", family}).calls, blocks) << order << " " << family;
        EXPECT_EQ(find(rows, {phase, "permute", family}).calls, directions * blocks) << order << " " << family;
      }
  }
}

TEST(CollectiveReportTest, AllToAllAttentionSwapsQueriesKeysAndValuesTogetherAndOutputs) {
  const auto rows = report_of({"layout.context_parallel=4", "layout.context_attention=alltoall"});
  for (const Phase phase : {Phase::forward, Phase::backward})
    EXPECT_EQ(find(rows, {phase, "all_to_all", "block*.A"}),
              (Found{2 * kPairs, kPairs * 4 * kStreamBytes / 4 * 3 / 4}));  // all four of a chip, but its own part
  EXPECT_EQ(find(rows, {Phase::forward, "permute", ""}).calls, 0);
}

TEST(CollectiveReportTest, ExpertsTakeTwoAllToAllsPerBlockEachWay) {
  const auto rows = report_of({"model.feed_forward.experts=4", "layout.expert_parallel=2"});
  for (const Phase phase : {Phase::forward, Phase::backward})
    EXPECT_EQ(find(rows, {phase, "all_to_all", "block*.E"}).calls, 2 * kPairs) << phase_name(phase);
}

TEST(CollectiveReportTest, StagesHandTheStreamOnAndItsGradientBack) {
  const auto rows = report_of({"layout.pipeline_parallel=2", "layout.tensor_parallel=2", "train.micro_steps=6"});
  const auto sent = [&rows](int64_t stage, Phase phase) {
    std::vector<CollectiveRow> own;
    for (const CollectiveRow& row : rows)
      if (row.stage == stage) own.push_back(row);
    return find(own, {phase, "send", ""});
  };
  // In every micro-step, whatever the slot: half of the stream, as sequence parallel leaves it.
  EXPECT_EQ(sent(0, Phase::forward), (Found{1, kStreamBytes / 2}));
  EXPECT_EQ(sent(1, Phase::backward), (Found{1, kStreamBytes / 2}));
  EXPECT_EQ(sent(0, Phase::backward).calls, 0);
  EXPECT_EQ(sent(1, Phase::forward).calls, 0);
  // What blocks do among themselves is what they do without a pipeline.
  const auto whole = report_of({"layout.tensor_parallel=2"});
  for (const char* kind : {"all_gather", "reduce_scatter"})
    for (const Phase phase : {Phase::forward, Phase::backward})
      EXPECT_EQ(find(rows, {phase, kind, "block*.A"}), find(whole, {phase, kind, "block*.A"})) << kind;
}

TEST(CollectiveReportTest, StepAddsUpMicroStepsAndTheUpdate) {
  const CollectiveRow forward{.stage = 0,
                              .phase = Phase::forward,
                              .kind = "",
                              .axes = "",
                              .where = "",
                              .cause = "",
                              .calls = 3,
                              .bytes = 5,
                              .removal = {},
                              .cost_bytes = {}};
  CollectiveRow update = forward;
  update.phase = Phase::update;
  EXPECT_EQ(step_bytes({forward, update}, 4), 4 * 15 + 15);
  CollectiveRow other = update;
  other.stage = 1;
  other.calls = 100;
  EXPECT_EQ(step_bytes({forward, update, other}, 4), 500);
}

TEST(CollectiveReportTest, EveryRowHasACause) {
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"layout.tensor_parallel=2", "layout.data_parallel=2", "layout.zero=3"}, {"layout.context_parallel=4"}})
    for (const CollectiveRow& row : report_of(layout)) {
      EXPECT_NE(row.cause, "") << row.kind << " @" << row.where;
      EXPECT_NE(row.axes, "") << row.kind << " @" << row.where;
    }
}

// All four families, with fewer KV heads and groups than the chips of the layouts below may be.
std::vector<std::string> hybrid(const std::vector<std::string>& layout) {
  std::vector<std::string> overrides = {
      "model.pattern=AEMEMR",    "model.attention.kv_heads=2", "model.feed_forward.experts=4", "model.mamba.heads=4",
      "model.mamba.head_dim=16", "model.mamba.groups=2",       "model.mamba.state=16",         "model.mamba.chunk=16",
      "model.recurrent.heads=4", "model.recurrent.width=32"};
  overrides.insert(overrides.end(), layout.begin(), layout.end());
  return overrides;
}

class RemovalTest : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(
    SharedWeights, RemovalTest,
    testing::Values(std::vector<std::string>{"layout.tensor_parallel=4", "model.attention.kv_heads=2"},
                    std::vector<std::string>{"layout.tensor_parallel=4", "model.attention.kv_heads=2",
                                             "layout.sequence_parallel=false"},
                    std::vector<std::string>{"layout.tensor_parallel=2", "model.attention.kv_heads=1"},
                    std::vector<std::string>{"layout.tensor_parallel=2", "model.attention.kv_heads=1",
                                             "layout.sequence_parallel=false", "layout.data_parallel=2",
                                             "layout.zero=3"}));
INSTANTIATE_TEST_SUITE_P(
    KeptWeights, RemovalTest,
    testing::Values(std::vector<std::string>{"layout.data_parallel=4", "layout.zero=3",
                                             "layout.reshard_after_forward=false"},
                    std::vector<std::string>{"layout.pipeline_parallel=2", "layout.data_parallel=2", "layout.zero=3"},
                    std::vector<std::string>{"layout.pipeline_parallel=2", "layout.data_parallel=2", "layout.zero=3",
                                             "layout.reshard_after_forward=false"}));
INSTANTIATE_TEST_SUITE_P(
    Hybrid, RemovalTest,
    testing::Values(hybrid({"layout.tensor_parallel=2"}), hybrid({"layout.tensor_parallel=4"}),
                    hybrid({"layout.tensor_parallel=4", "layout.sequence_parallel=false"}),
                    hybrid({"layout.tensor_parallel=4", "layout.expert_tensor_parallel=1"}),
                    hybrid({"layout.tensor_parallel=2", "layout.context_parallel=2"}),
                    hybrid({"layout.data_parallel=2", "layout.expert_parallel=2", "layout.tensor_parallel=2"}),
                    hybrid({"layout.data_parallel=2", "layout.expert_parallel=2", "layout.zero=3"}),
                    hybrid({"layout.policy=fsdp", "layout.data_parallel=2", "layout.tensor_parallel=2"}),
                    hybrid({"layout.policy=megatron", "layout.data_parallel=2", "layout.tensor_parallel=4"}),
                    hybrid({"layout.pipeline_parallel=2", "layout.tensor_parallel=4"})));
INSTANTIATE_TEST_SUITE_P(
    Layouts, RemovalTest,
    testing::Values(std::vector<std::string>{"layout.tensor_parallel=2"},
                    std::vector<std::string>{"layout.tensor_parallel=2", "layout.sequence_parallel=false"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=0"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=1"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=2"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=0", "train.micro_steps=1"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=1", "train.micro_steps=1"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=3", "train.micro_steps=1"},
                    std::vector<std::string>{"layout.data_parallel=4", "layout.zero=3"},
                    std::vector<std::string>{"layout.data_parallel=4", "layout.zero=3", "train.precision=bf16"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.zero=1", "optimizer.name=muon"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.tensor_parallel=2", "layout.zero=3",
                                             "optimizer.name=muon"},
                    std::vector<std::string>{"layout.data_parallel=4", "layout.zero=3",
                                             "layout.reshard_after_forward=2"},
                    std::vector<std::string>{"layout.data_parallel=2", "layout.tensor_parallel=2", "layout.zero=3"},
                    std::vector<std::string>{"layout.context_parallel=2"},
                    std::vector<std::string>{"layout.pipeline_parallel=2", "layout.data_parallel=2"},
                    std::vector<std::string>{"layout.pipeline_parallel=2", "model.tie_embeddings=true"},
                    std::vector<std::string>{"layout.expert_parallel=2", "model.feed_forward.experts=4"},
                    std::vector<std::string>{"layout.context_parallel=2", "layout.context_attention=alltoall"}));

// State as the memory plan has it, and second copies of weights: as the plan counts them, for only in a pipeline are
// they state.
int64_t held_bytes(const recipe::Recipe& recipe, const Compiled& compiled, int64_t stage) {
  const size_t there = std::min(static_cast<size_t>(stage), compiled.stages.size() - 1);
  int64_t bytes = plan::state_bytes(plan::make_plan(recipe), compiled.parameters_of(there)).kept;
  for (const memory::StateSlot& slot : compiled.stages[there].memory.state)
    if (slot.role != ir::Role::batch && slot.role != ir::Role::activation && slot.role != ir::Role::weight_copy &&
        slot.name.find("kept.weight") == std::string::npos)
      bytes += slot.type.bytes();
  return bytes;
}

// Whatever it is called.
bool is_same(const CollectiveRow& a, const CollectiveRow& b) {
  return std::tie(a.kind, a.axes, a.where, a.cause) == std::tie(b.kind, b.axes, b.where, b.cause);
}

TEST_P(RemovalTest, TheChangeRemovesWhatItSaysAndCostsWhatItSays) {
  const recipe::Recipe recipe = dense_recipe(GetParam());
  const Compiled before = compile_training(plan::make_plan(recipe), plain_target());
  std::set<std::tuple<int64_t, Phase, std::string, std::vector<std::string>>> tried;
  for (const CollectiveRow& row : report_on(before, recipe)) {
    if (!tried.insert({row.stage, row.phase, row.removal.purpose, row.removal.changes}).second) continue;
    if (row.removal.changes.empty()) {
      EXPECT_NE(row.removal.note, "") << row.cause;
      continue;
    }
    recipe::Recipe changed = recipe;
    recipe::apply_overrides(changed, row.removal.changes);
    EXPECT_NE(changed, recipe) << row.removal.changes[0] << " is so already: " << row.cause;
    const Compiled after = compile_training(plan::make_plan(changed), plain_target());
    // What moves over other axes for the same purpose is another collective, with another change.
    const auto shares_change = [&row](const CollectiveRow& left) {
      return left.removal.changes.empty() ||
             std::any_of(left.removal.changes.begin(), left.removal.changes.end(), [&row](const std::string& change) {
               return std::find(row.removal.changes.begin(), row.removal.changes.end(), change) !=
                      row.removal.changes.end();
             });
    };
    for (const CollectiveRow& left : report_on(after, changed))
      EXPECT_FALSE(left.phase == row.phase &&
                   ((left.removal.purpose == row.removal.purpose && shares_change(left)) || is_same(left, row)))
          << row.removal.changes[0] << " leaves " << left.kind << " @" << left.where << ": " << left.cause;
    ASSERT_TRUE(row.cost_bytes) << row.removal.changes[0];
    EXPECT_EQ(held_bytes(changed, after, row.stage) - held_bytes(recipe, before, row.stage), *row.cost_bytes)
        << row.removal.changes[0];
  }
}

TEST(CollectiveReportTest, SharedWeightsAskForTheDegreeThatSplitsThem) {
  for (const char* sequence_parallel : {"true", "false"}) {
    std::vector<std::string> overrides =
        hybrid({"layout.tensor_parallel=4", std::string("layout.sequence_parallel=") + sequence_parallel});
    int64_t shared = 0;
    for (const CollectiveRow& row : report_of(overrides))
      if (row.removal.purpose == "gradients of weights that several chips share") {
        ++shared;
        EXPECT_EQ(row.removal.changes, std::vector<std::string>{"layout.tensor_parallel=2"});
      }
    EXPECT_GT(shared, 0) << "sequence_parallel " << sequence_parallel;
  }
}

TEST(SentBytesTest, EveryCollectiveOpThatMovesDataIsCounted) {
  for (const ops::OpDef& op : ops::all_ops()) {
    const bool stays = !op.is_collective || op.name == "shard_index" || op.name == "shard_slice" ||
                       op.name == ops::kDoneOp;  // counted where it was started
    ir::Graph graph;
    ir::Node node{.op = op.name, .operands = {}, .results = {}, .attrs = {}, .scope = ""};
    if (op.name == ops::kStartOp) node.attrs.set("op", std::string("permute"));
    EXPECT_EQ(sent_bytes(graph, node).has_value(), !stays) << op.name;
  }
}

}  // namespace
}  // namespace megacpp::compile
