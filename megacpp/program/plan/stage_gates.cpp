// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/stage_gates.h"

#include <fmt/format.h>

#include <algorithm>

#include "megacpp/program/recipe/pattern.h"

namespace megacpp::plan {
namespace {

using base::Code;
using base::Problem;
using recipe::Layout;
using recipe::Recipe;

constexpr const char* kStages = "layout.pipeline_parallel";
constexpr const char* kChunks = "layout.virtual_stages";
constexpr const char* kSchedule = "layout.schedule";

// ---- Chunks and schedules ----

std::string chunks_text(const Layout& l) {
  return fmt::format("virtual_stages {}, schedule {}, pipeline_parallel {}", l.virtual_stages,
                     base::text_of(l.schedule), l.pipeline_parallel);
}

Refusal chunks_without_pipeline(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  if (l.pipeline_parallel > 1 || l.virtual_stages == 1) return {};
  return Problem{.where = kChunks, .got = chunks_text(l), .wanted = "1: there is no pipeline"};
}

std::vector<Choice> one_chunk(const Recipe&) { return {to_value(kChunks, 1)}; }

Refusal chunks_not_interleaved(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  if (l.schedule == recipe::StageSchedule::interleaved || l.virtual_stages == 1) return {};
  return Problem{.where = kChunks, .got = chunks_text(l), .wanted = "1, or the interleaved schedule"};
}

std::vector<Choice> interleave_or_one_chunk(const Recipe&) {
  return {to_value(kSchedule, "interleaved"), to_value(kChunks, 1)};
}

Refusal nothing_to_interleave(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  if (l.schedule != recipe::StageSchedule::interleaved || l.pipeline_parallel == 1 || l.virtual_stages > 1) return {};
  return Problem{.where = kSchedule, .got = chunks_text(l), .wanted = "at least 2 chunks per stage to interleave"};
}

std::vector<Choice> two_chunks_or_not_interleaved(const Recipe&) {
  return {to_value(kChunks, 2), to_value(kSchedule, "1f1b")};
}

// ---- Blocks ----

Refusal too_few_blocks(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t depth = recipe.model.depth;
  if (l.pipeline_parallel * l.virtual_stages <= depth) return {};
  return Problem{
      .where = kStages,
      .got = fmt::format("{} stages x {} chunks for {} blocks", l.pipeline_parallel, l.virtual_stages, depth),
      .wanted = "a block for each"};
}

std::vector<Choice> fewer_parts(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t depth = recipe.model.depth;
  const auto any = [](int64_t) { return true; };
  Choice stages = near(kStages, depth / l.virtual_stages + 1, depth / l.virtual_stages, any)[0];
  Choice chunks = near(kChunks, depth / l.pipeline_parallel + 1, depth / l.pipeline_parallel, any)[0];
  chunks.push_back({{kChunks, "1"}, {kSchedule, "1f1b"}});
  return {std::move(stages), std::move(chunks)};
}

Refusal other_cuts(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const recipe::ExpandedPattern pattern = recipe::expand(recipe.model);
  // On one stage the cuts wait for a layout that has more.
  if (l.pipeline_parallel == 1 || pattern.cuts.empty()) return {};
  const int64_t chunks = l.pipeline_parallel * l.virtual_stages, got = static_cast<int64_t>(pattern.cuts.size()) + 1;
  if (got == chunks) return {};
  return Problem{.where = "model.pattern",
                 .got = fmt::format("{} parts between '|' cuts over {} blocks", got, recipe.model.depth),
                 .wanted = fmt::format("{}: {} stages x {} chunks", chunks, l.pipeline_parallel, l.virtual_stages)};
}

std::vector<Choice> as_many_parts(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const recipe::ExpandedPattern pattern = recipe::expand(recipe.model);
  const int64_t parts = static_cast<int64_t>(pattern.cuts.size()) + 1;
  std::string uncut = recipe.model.pattern;
  std::erase(uncut, '|');
  std::vector<Choice> choices;
  if (parts % l.virtual_stages == 0) choices.push_back(to_value(kStages, parts / l.virtual_stages));
  if (parts % l.pipeline_parallel == 0) choices.push_back(to_value(kChunks, parts / l.pipeline_parallel));
  choices.push_back(to_value("model.pattern", uncut));
  return choices;
}

}  // namespace

const std::array<Gate, 5>& stage_gates() {
  static const std::array<Gate, 5> gates = {{
      {Code::E1407, chunks_without_pipeline, one_chunk},
      {Code::E1407, chunks_not_interleaved, interleave_or_one_chunk},
      {Code::E1407, nothing_to_interleave, two_chunks_or_not_interleaved},
      {Code::E1406, too_few_blocks, fewer_parts},
      {Code::E1406, other_cuts, as_many_parts},
  }};
  return gates;
}

}  // namespace megacpp::plan
