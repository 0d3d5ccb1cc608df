// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/schedule_passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "megacpp/program/memory/report.h"
#include "megacpp/program/partition/split_passes.h"
#include "megacpp/program/schedule/bucket_collectives.h"
#include "megacpp/program/schedule/convert_once.h"
#include "megacpp/program/schedule/decompose.h"
#include "megacpp/program/schedule/fold_accumulation.h"
#include "megacpp/program/schedule/fold_sums.h"
#include "megacpp/program/schedule/join_conv_grads.h"
#include "megacpp/program/schedule/join_swiglu.h"
#include "megacpp/program/schedule/mix_products.h"
#include "megacpp/program/schedule/narrow_operands.h"
#include "megacpp/program/schedule/narrow_results.h"
#include "megacpp/program/schedule/offload_activations.h"
#include "megacpp/program/schedule/offload_state.h"
#include "megacpp/program/schedule/overlap_collectives.h"
#include "megacpp/program/schedule/recompute_cheap.h"
#include "megacpp/program/schedule/split_loss.h"
#include "megacpp/program/schedule/widen_products.h"

namespace megacpp::compile {
namespace {

schedule::BucketPolicy bucket_policy(const plan::Plan& plan, ProgramKind kind) {
  using Unit = schedule::BucketPolicy::Unit;
  schedule::BucketPolicy policy{
      .unit = Unit::bytes, .bytes = plan.layout->bucket_bytes, .start_multiple = plan::kBucketAlignment};
  if (kind == ProgramKind::update) {
    policy.order = schedule::BucketPolicy::Order::reversed;
  } else if (plan.gathers != plan::GatherUnit::bucket) {
    policy.unit = plan.gathers == plan::GatherUnit::block ? Unit::block : Unit::none;
  }
  return policy;
}

// Adds where the copies stand to `inputs`, the state of the stage.
Program conversion_of(const std::vector<schedule::WeightCopy>& copies, partition::Placements& inputs, int64_t stage) {
  Program program{.kind = ProgramKind::convert_weights, .stage = stage, .graph = schedule::make_copies(copies)};
  for (const schedule::WeightCopy& copy : copies) {
    partition::Placement placement = inputs.at(copy.weight);
    placement.whole.dtype = copy.dtype;
    program.outputs[copy.name()] = inputs[copy.name()] = std::move(placement);
  }
  return program;
}

// Weights that one node of all programs of their stage converts to bf16: what it makes is kept for the backward pass
// or, in a pipeline, only one program reads it, as it does norms' scales, and it is small.
std::vector<std::set<std::string>> with_one_conversion(const Compilation& run) {
  std::vector<std::map<std::string, int64_t>> counts(run.inputs.size());
  for (const Program& program : run.programs) {
    if (program.kind == ProgramKind::update) continue;
    for (const auto& [name, count] : schedule::count_conversions(program.graph))
      counts[static_cast<size_t>(program.stage)][name] += count;
  }
  std::vector<std::set<std::string>> weights(run.inputs.size());
  for (size_t stage = 0; stage < weights.size(); ++stage)
    for (const blocks::Parameter& parameter : run.forward.parameters) {
      const auto found = counts[stage].find(parameter.name);
      if (found != counts[stage].end() && found->second == 1) weights[stage].insert(parameter.name);
    }
  return weights;
}

void offload_state(Compilation& run) {
  for (Program& program : run.programs)
    if (program.kind == ProgramKind::update)
      program.graph = schedule::offload_state(program.graph, run.target.tiers.front());
}

bool is_backward(ProgramKind kind) {
  return kind == ProgramKind::backward || kind == ProgramKind::backward_input || kind == ProgramKind::backward_weight;
}

// In a pipeline what a forward program hands over to backward programs of its part of the model.
void offload_activations(Compilation& run) {
  const schedule::OffloadedBlocks blocks{.letters = run.plan.layout->offload_blocks, .tier = run.target.tiers.front()};
  for (Program& program : run.programs) {
    if (program.kind == ProgramKind::micro_step) program.graph = schedule::offload_activations(program.graph, blocks);
    if (program.kind != ProgramKind::forward) continue;
    const schedule::HandedOver names = schedule::handed_over(program.graph, partition::kKeptPrefix, blocks);
    program.graph = schedule::store_outputs(program.graph, names);
    for (Program& other : run.programs)
      if (is_backward(other.kind) && other.stage == program.stage && other.chunk == program.chunk)
        other.graph = schedule::fetch_inputs(other.graph, names);
  }
}

}  // namespace

void decompose(Compilation& run) {
  for (Program& program : run.programs) {
    schedule::Decomposed result = schedule::decompose(program.graph, run.target);
    program.graph = std::move(result.graph);
    run.compiled.fallbacks.insert(run.compiled.fallbacks.end(), result.fallbacks.begin(), result.fallbacks.end());
  }
}

void absorb_converts(Compilation& run) {
  for (Program& program : run.programs) {
    if (run.target.has_epilogues) program.graph = schedule::narrow_operands(program.graph, run.target);
    program.graph = schedule::widen_products(program.graph);
    if (!run.target.has_epilogues) continue;
    program.graph = schedule::mix_products(program.graph, run.target);
    program.graph = schedule::narrow_results(program.graph, run.target);
  }
}

void fold(Compilation& run) {
  for (Program& program : run.programs) {
    program.graph = schedule::fold_accumulation(program.graph);
    if (!run.target.has_epilogues) continue;
    program.graph = schedule::fold_sums(program.graph, run.target);
    program.graph = schedule::join_conv_grads(program.graph, run.target);
    program.graph = schedule::join_swiglu(program.graph, run.target);
  }
}

void split_loss(Compilation& run) {
  for (Program& program : run.programs) program.graph = schedule::split_loss(program.graph, run.target.full_rate_rows);
}

void convert_once(Compilation& run) {
  std::vector<std::vector<schedule::WeightCopy>> copies(run.inputs.size());  // by stage
  const std::vector<std::set<std::string>> weights = with_one_conversion(run);
  for (Program& program : run.programs) {
    if (program.kind == ProgramKind::update) continue;
    const size_t stage = static_cast<size_t>(program.stage);
    schedule::ConvertOnce converted = schedule::read_copies(program.graph, weights[stage]);
    program.graph = std::move(converted.graph);
    copies[stage].insert(copies[stage].end(), converted.copies.begin(), converted.copies.end());
  }
  for (size_t stage = 0; stage < copies.size(); ++stage)
    if (!copies[stage].empty())
      run.programs.push_back(conversion_of(copies[stage], run.inputs[stage], static_cast<int64_t>(stage)));
}

bool would_hold_copies(const Compilation& run) {
  const std::vector<std::set<std::string>> weights = with_one_conversion(run);
  return std::ranges::any_of(run.programs, [&weights](const Program& program) {
    return program.kind != ProgramKind::update &&
           schedule::has_copies_to_read(program.graph, weights[static_cast<size_t>(program.stage)]);
  });
}

void bucket_collectives(Compilation& run) {
  for (Program& program : run.programs)
    program.graph = schedule::bucket_collectives(program.graph, bucket_policy(run.plan, program.kind));
}

void recompute_cheap(Compilation& run) {
  for (Program& program : run.programs)
    program.graph = schedule::recompute_cheap(program.graph, run.target.ops_per_byte);
}

void overlap_collectives(Compilation& run) {
  for (Program& program : run.programs)
    program.graph = schedule::overlap_collectives(program.graph, {.prefetch = run.plan.layout->prefetch});
}

void offload(Compilation& run) {
  if (run.plan.layout->offloads_state()) offload_state(run);
  if (run.plan.layout->offloads_activations()) offload_activations(run);
}

void plan_memory(Compilation& run) {
  for (StagePrograms& chip : run.compiled.stages) {
    std::vector<const ir::Graph*> graphs;
    for (const Program& program : chip.programs) graphs.push_back(&program.graph);
    chip.memory = memory::plan_memory(graphs, run.target);
  }
}

std::string memory_text(const Compilation& run) {
  std::string text;
  for (const StagePrograms& chip : run.compiled.stages) text += memory::to_text(chip.memory);
  return text;
}

}  // namespace megacpp::compile
