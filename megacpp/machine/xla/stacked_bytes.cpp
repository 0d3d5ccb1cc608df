// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/stacked_bytes.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/compile/compile.h"
#include "megacpp/program/emit/custom_call.h"
#include "megacpp/program/emit/outline.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/pattern.h"

namespace megacpp::runtime::xla {
namespace {

/// The blocks that repeat, once; all where none do.
recipe::Recipe iteration_of(const recipe::Recipe& recipe) {
  if (!recipe::has_repeated_blocks(recipe.model)) return recipe;
  const base::Repeat repeat = recipe::repeated_blocks(recipe.model);
  const std::vector<char> letters = recipe::expand(recipe.model).letters;
  const auto first = letters.begin() + static_cast<std::ptrdiff_t>(repeat.first);
  recipe::Recipe one = recipe;
  one.model.pattern = std::string(first, first + static_cast<std::ptrdiff_t>(repeat.period));
  one.model.depth = static_cast<int64_t>(repeat.period);
  return one;
}

schedule::Target emitted(schedule::Target target) {
  target.runs = [](std::string_view op, const ops::NodeView& view) { return emit::is_emitted_whole(op, view, false); };
  target.compiles_loops = target.schedules_itself = true;
  return target;
}

bool is_block_node(const ir::Node& node) { return !ir::scope_letter(node.scope).empty(); }

/// The loop collects what entered each iteration too, of the first what the embedding made.
bool is_made_forward(const emit::Piece& piece, const ir::Graph& graph) {
  const ir::Node& first = graph.nodes()[piece.nodes[0]];
  return !piece.is_return && (is_block_node(first) || ir::scope_block(first.scope) == "embed");
}

}  // namespace

int64_t stacked_bytes(const recipe::Recipe& recipe, const schedule::Target& target) {
  const recipe::Recipe iteration = iteration_of(recipe);
  const compile::Compiled compiled = compile::compile_micro_steps(plan::PlannedRecipe(iteration).plan(),
                                                                  emitted(target), {.verify = compile::Verify::result});
  const ir::Graph& graph = compiled.stages[0].find(compile::ProgramKind::micro_step).graph;
  std::vector<bool> is_left(graph.values().size());  // by the forward pass, and not counted yet
  int64_t bytes = 0;
  for (const emit::Piece& piece : emit::outline(graph)) {
    if (is_made_forward(piece, graph))
      for (const ir::ValueId leaf : piece.leaves) is_left[leaf.index] = true;
    if (!piece.is_return || !is_block_node(graph.nodes()[piece.nodes[0]])) continue;
    for (const ir::ValueId read : piece.reads) {
      if (is_left[read.index]) bytes += graph.type(read).bytes();
      is_left[read.index] = false;
    }
  }
  const double iterations = static_cast<double>(recipe.model.depth) / static_cast<double>(iteration.model.depth);
  return std::llround(iterations * static_cast<double>(bytes));
}

}  // namespace megacpp::runtime::xla
