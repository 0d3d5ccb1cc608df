// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/gates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>

#include "megacpp/base/error.h"
#include "megacpp/plan/spread.h"
#include "megacpp/plan/tensor_split.h"
#include "megacpp/recipe/pattern.h"

namespace megacpp::plan {
namespace {

using recipe::Layout;
using recipe::Model;
using recipe::Recipe;

constexpr int64_t kMaxChips = int64_t{1} << 20;

/// "set layout.tensor_parallel: 4 or 7": the legal values next below and next above `wish`. 1 is always legal.
std::string nearest_legal(const std::string& path, int64_t wish, int64_t highest,
                          const std::function<bool(int64_t)>& is_legal) {
  int64_t below = std::min(wish - 1, highest), above = wish + 1;
  while (below > 1 && !is_legal(below)) --below;
  while (above <= highest && !is_legal(above)) ++above;
  const std::string text = fmt::format("set {}: {}", path, below);
  return above > highest ? text : fmt::format("{} or {}", text, above);
}

int64_t product_of_degrees(const Layout& l) {
  int64_t product = 1;
  for (const int64_t degree :
       {l.data_parallel, l.expert_parallel, l.context_parallel, l.tensor_parallel, l.pipeline_parallel})
    product = std::min(product * degree, kMaxChips * 2);  // beyond the limit the number no longer matters
  return product;
}

void check_chip_limit(const Recipe& recipe) {
  const int64_t product = product_of_degrees(recipe.layout);
  MEGACPP_REQUIRE(product <= kMaxChips, E1401,
                  {.where = "layout",
                   .got = fmt::format("degrees that multiply to more than {} chips", kMaxChips),
                   .wanted = fmt::format("at most {} chips", kMaxChips),
                   .next = "lower layout.data_parallel"});
}

void check_chips(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t product = product_of_degrees(l), others = product / l.data_parallel;
  const std::string as_given = fmt::format("layout.chips: {}", product);
  MEGACPP_REQUIRE(
      l.chips == 0 || l.chips == product, E1401,
      {.where = "layout.chips",
       .got = fmt::format("chips {}; data {} x expert {} x context {} x tensor {} x pipeline {} = {}", l.chips,
                          l.data_parallel, l.expert_parallel, l.context_parallel, l.tensor_parallel,
                          l.pipeline_parallel, product),
       .wanted = fmt::format("degrees that multiply to {}", l.chips),
       .next = l.chips % others == 0 ? fmt::format("set layout.data_parallel: {}, or {}", l.chips / others, as_given)
                                     : "set " + as_given});
}

void check_expert_degrees(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t experts = recipe.model.feed_forward.experts;
  if (!has_experts(recipe.model, recipe::expand(recipe.model.pattern, recipe.model.depth))) {
    MEGACPP_REQUIRE(l.expert_parallel == 1, E1403,
                    {.where = "layout.expert_parallel",
                     .got = fmt::format("{} in a model without experts", l.expert_parallel),
                     .wanted = "1",
                     .next = fmt::format("set layout.expert_parallel: 1 and layout.data_parallel: {}",
                                         l.data_parallel * l.expert_parallel)});
    MEGACPP_REQUIRE(expert_tensor_parallel(l) == l.tensor_parallel, E1403,
                    {.where = "layout.expert_tensor_parallel",
                     .got = fmt::format("{} in a model without experts", l.expert_tensor_parallel),
                     .wanted = "0",
                     .next = "set layout.expert_tensor_parallel: 0"});
    return;
  }
  MEGACPP_REQUIRE(experts % l.expert_parallel == 0, E1403,
                  {.where = "layout.expert_parallel",
                   .got = fmt::format("expert_parallel {}, experts {}", l.expert_parallel, experts),
                   .wanted = fmt::format("a divisor of {}", experts),
                   .next = nearest_legal("layout.expert_parallel", l.expert_parallel, experts,
                                         [experts](int64_t d) { return experts % d == 0; })});
}

void check_expert_tensor(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t degree = expert_tensor_parallel(l);
  MEGACPP_REQUIRE(l.tensor_parallel % degree == 0, E1403,
                  {.where = "layout.expert_tensor_parallel",
                   .got = fmt::format("expert_tensor_parallel {}, tensor_parallel {}", degree, l.tensor_parallel),
                   .wanted = fmt::format("a divisor of {}", l.tensor_parallel),
                   .next = nearest_legal("layout.expert_tensor_parallel", degree, l.tensor_parallel,
                                         [&l](int64_t d) { return l.tensor_parallel % d == 0; })});
}

/// No degree above it is legal: the scarcest thing that chips cannot share.
int64_t largest_tensor_parallel(const Model& model) {
  int64_t scarcest = kMaxChips;
  for (const Splittable& what : splittables(model, recipe::expand(model.pattern, model.depth)))
    if (!what.shareable) scarcest = std::min(scarcest, what.count);
  return scarcest;
}

void check_tensor_split(const Recipe& recipe) {
  const int64_t degree = recipe.layout.tensor_parallel;
  const auto fits = [&recipe](int64_t wish) {
    Layout layout = recipe.layout;
    layout.tensor_parallel = wish;
    return tensor_parallel_fits(recipe.model, layout);
  };
  const base::Decision decision = fits(degree);
  MEGACPP_REQUIRE(decision, E1402,
                  {.where = "layout.tensor_parallel",
                   .got = std::to_string(degree),
                   .wanted = decision.reason(),
                   .next = nearest_legal("layout.tensor_parallel", degree, largest_tensor_parallel(recipe.model),
                                         [&fits](int64_t wish) { return static_cast<bool>(fits(wish)); })});
}

void check_alltoall_attention(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const recipe::Attention& a = recipe.model.attention;
  const bool applies = l.context_attention == "alltoall" &&
                       recipe::has_family(recipe::expand(recipe.model.pattern, recipe.model.depth), 'A');
  if (!applies) return;
  const int64_t kv_parts = parts_of(a.kv_heads, l.tensor_parallel);
  const auto fits = [&](int64_t context) {
    return a.heads % (l.tensor_parallel * context) == 0 && a.kv_heads % (kv_parts * context) == 0;
  };
  MEGACPP_REQUIRE(
      fits(l.context_parallel), E1402,
      {.where = "layout.context_parallel",
       .got = fmt::format("context_parallel {} with alltoall attention over {} query heads and {} KV heads a chip",
                          l.context_parallel, a.heads / l.tensor_parallel, a.kv_heads / kv_parts),
       .wanted = "a divisor of both",
       .next = nearest_legal("layout.context_parallel", l.context_parallel, a.kv_heads, fits) +
               ", or layout.context_attention: ring"});
}

/// Tokens that a causal convolution of the model looks back: what it needs of the run before must be in that run.
int64_t longest_history(const Model& model) {
  const recipe::ExpandedPattern pattern = recipe::expand(model.pattern, model.depth);
  return std::max(recipe::has_family(pattern, 'M') ? model.mamba.conv_width - 1 : 0,
                  recipe::has_family(pattern, 'R') ? model.recurrent.conv_width - 1 : 0);
}

void check_sequence(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t runs = l.context_parallel * (is_balanced(recipe.model, l) ? 2 : 1);
  const int64_t stream = l.context_parallel * (l.sequence_parallel ? l.tensor_parallel : 1);
  const int64_t pieces = std::lcm(stream, runs * token_parts(recipe.model, l));
  const int64_t history = runs > 1 ? longest_history(recipe.model) : 0;
  const int64_t least = std::max<int64_t>(1, (runs * history + pieces - 1) / pieces) * pieces;
  const int64_t sequence = recipe.train.sequence, below = sequence / pieces * pieces;
  MEGACPP_REQUIRE(sequence % pieces == 0 && sequence >= least, E1404,
                  {.where = "train.sequence",
                   .got = std::to_string(sequence),
                   .wanted = fmt::format("a multiple of {}: {} runs of tokens{}, {} parts between mixers", pieces, runs,
                                         history > 1 ? fmt::format(", at least {} in each", history) : "", stream),
                   .next = below < least ? fmt::format("set train.sequence: {}", least)
                                         : fmt::format("set train.sequence: {} or {}", below, below + pieces)});
}

void check_batch(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t batch = recipe.train.batch, chips = l.data_parallel * l.expert_parallel;
  const int64_t data = batch / l.expert_parallel;
  MEGACPP_REQUIRE(
      batch >= chips, E1405,
      {.where = "train.batch",
       .got = fmt::format("{} sequences for data {} x expert {}", batch, l.data_parallel, l.expert_parallel),
       .wanted = fmt::format("at least {}", chips),
       .next = data >= 1 ? fmt::format("set train.batch: {}, or layout.data_parallel: {}", chips, data)
                         : fmt::format("set train.batch: {}", chips)});
}

void check_stages(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t depth = recipe.model.depth;
  MEGACPP_REQUIRE(
      l.pipeline_parallel * l.virtual_stages <= depth, E1406,
      {.where = "layout.pipeline_parallel",
       .got = fmt::format("{} stages x {} chunks for {} blocks", l.pipeline_parallel, l.virtual_stages, depth),
       .wanted = "a block for each",
       .next = l.virtual_stages <= depth ? fmt::format("set layout.pipeline_parallel: {}", depth / l.virtual_stages)
                                         : "set layout.virtual_stages: 1"});
}

// On one stage the cuts wait for a layout that has more.
void check_cuts(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const recipe::ExpandedPattern pattern = recipe::expand(recipe.model.pattern, recipe.model.depth);
  if (l.pipeline_parallel == 1 || pattern.cuts.empty()) return;
  const int64_t chunks = l.pipeline_parallel * l.virtual_stages, got = static_cast<int64_t>(pattern.cuts.size()) + 1;
  const std::string drop = "remove every '|' from model.pattern";
  MEGACPP_REQUIRE(got == chunks, E1406,
                  {.where = "model.pattern",
                   .got = fmt::format("{} parts between '|' cuts over {} blocks", got, recipe.model.depth),
                   .wanted = fmt::format("{}: {} stages x {} chunks", chunks, l.pipeline_parallel, l.virtual_stages),
                   .next = got % l.virtual_stages == 0
                               ? fmt::format("set layout.pipeline_parallel: {}, or {}", got / l.virtual_stages, drop)
                               : drop});
}

void check_virtual_stages(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const bool interleaved = l.schedule == "interleaved", is_pipeline = l.pipeline_parallel > 1;
  const std::string got = fmt::format("virtual_stages {}, schedule {}, pipeline_parallel {}", l.virtual_stages,
                                      l.schedule, l.pipeline_parallel);
  MEGACPP_REQUIRE(is_pipeline || l.virtual_stages == 1, E1407,
                  {.where = "layout.virtual_stages",
                   .got = got,
                   .wanted = "1: there is no pipeline",
                   .next = "set layout.virtual_stages: 1"});
  MEGACPP_REQUIRE(interleaved || l.virtual_stages == 1, E1407,
                  {.where = "layout.virtual_stages",
                   .got = got,
                   .wanted = "1, or the interleaved schedule",
                   .next = "set layout.schedule: interleaved, or layout.virtual_stages: 1"});
  MEGACPP_REQUIRE(!interleaved || !is_pipeline || l.virtual_stages > 1, E1407,
                  {.where = "layout.schedule",
                   .got = got,
                   .wanted = "at least 2 chunks per stage to interleave",
                   .next = "set layout.virtual_stages: 2, or layout.schedule: 1f1b"});
}

void check_lane(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  MEGACPP_REQUIRE(l.lane != "megatron" || l.zero < 3, E1407,
                  {.where = "layout.zero",
                   .got = "zero 3 in lane megatron",
                   .wanted = "at most 2: this lane keeps weights whole in the model",
                   .next = "set layout.zero: 1, or layout.lane: fsdp"});
}

void check_reshard(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const bool is_number = l.zero == 3 && l.reshard_after_forward != "true" && l.reshard_after_forward != "false";
  if (!is_number) return;
  const int64_t group = kept_group(l), data = l.data_parallel;
  const auto fits = [data](int64_t g) { return g > 1 && g < data && data % g == 0; };
  int64_t nearest = 0;
  for (int64_t g = 2; g < data; ++g)
    if (fits(g) && (nearest == 0 || std::abs(g - group) < std::abs(nearest - group))) nearest = g;
  MEGACPP_REQUIRE(fits(group), E1407,
                  {.where = "layout.reshard_after_forward",
                   .got = fmt::format("{} with data_parallel {}", group, data),
                   .wanted = fmt::format("true, false, or a divisor of {} between 1 and {}", data, data),
                   .next = nearest == 0 ? "set layout.reshard_after_forward: true"
                                        : fmt::format("set layout.reshard_after_forward: {}", nearest)});
}

// Later gates rely on earlier ones: degrees are counted before they are used, experts before the steps of `model`.
constexpr std::array kGates = {
    check_chip_limit,    check_chips,        check_expert_degrees,
    check_expert_tensor, check_tensor_split, check_alltoall_attention,
    check_sequence,      check_batch,        check_virtual_stages,
    check_stages,        check_cuts,         check_lane,
    check_reshard,
};

}  // namespace

void check_layout(const Recipe& recipe) {
  for (const auto gate : kGates) gate(recipe);
}

}  // namespace megacpp::plan
