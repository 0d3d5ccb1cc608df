// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/compile.h"

#include "megacpp/core/base/error.h"
#include "megacpp/program/compile/model_passes.h"
#include "megacpp/program/compile/partition_passes.h"
#include "megacpp/program/compile/pass.h"
#include "megacpp/program/compile/schedule_passes.h"
#include "megacpp/program/compile/stage_programs.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/merge_siblings.h"
#include "megacpp/program/schedule/order.h"
#include "megacpp/program/schedule/remove_dead.h"

namespace megacpp::compile {
namespace {

using base::Decision;

Decision in_pipelines(const Compilation& run) {
  return run.is_pipeline() ? Decision::yes() : Decision::no("there is one pipeline stage");
}

Decision where_weights_change(const Compilation& run) {
  if (!run.trains) return Decision::no("nothing is trained");
  return run.has_update ? Decision::yes() : Decision::no("micro-steps are compiled alone");
}

Decision where_gradients_are(const Compilation& run) {
  return run.is_inference() ? Decision::no("nothing is differentiated") : Decision::yes();
}

Decision between_chips(const Compilation& run) {
  return run.plan.chips > 1 ? Decision::yes() : Decision::no("one chip exchanges nothing");
}

Decision if_we_schedule(const Compilation& run) {
  return run.target.schedules_itself ? Decision::no("the backend " + run.target.name + " schedules by itself")
                                     : Decision::yes();
}

// Plans for compilers that place buffers are of programs that these have fused by then.
Decision if_we_run_clusters(const Compilation& run) {
  if (run.target.places_itself) return Decision::no("the backend " + run.target.name + " fuses by itself");
  return if_we_schedule(run);
}

Decision if_arithmetic_is_cheap(const Compilation& run) {
  if (run.target.ops_per_byte <= 0)
    return Decision::no("the backend " + run.target.name +
                        " keeps values in less time than it takes to make them again");
  return if_we_schedule(run);
}

Decision if_parts_run_at_full_rate(const Compilation& run) {
  if (run.target.full_rate_rows <= 0)
    return Decision::no("the backend " + run.target.name + " does not say how many rows a product needs");
  return if_we_schedule(run);
}

Decision if_micro_steps_repeat(const Compilation& run) {
  if (run.micro_steps() == 1) return Decision::no("a step has one micro-step");
  return if_we_run_clusters(run);
}

Decision if_we_schedule_chips(const Compilation& run) {
  const Decision scheduled = if_we_schedule(run);
  return scheduled ? between_chips(run) : scheduled;
}

Decision if_anything_is_offloaded(const Compilation& run) {
  if (!run.trains || run.plan.layout->offload == recipe::Offload::none)
    return Decision::no("layout.offload leaves everything on the devices");
  return !run.target.tiers.empty() ? Decision::yes()
                                   : Decision::no("the backend " + run.target.name + " keeps everything in one memory");
}

// The whole compiler, top to bottom: every kind of run (training, gradients or the forward pass alone, the whole model
// on every chip or a pipeline) goes through this list. Each pass has its own dump, number and name.
const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> kPasses = {
      // From a plan to what one optimizer step computes, over global shapes.
      {.name = "model",
       .does = "build the forward graph, with a reshard wherever the plan changes a sharding",
       .needed = "every program is made of it",
       .run = build_model},
      {.name = "cut",
       .does = "cut the forward graph at block boundaries into model stages",
       .needed = "a pipeline stage runs its own part of the model",
       .applies = in_pipelines,
       .run = cut_model},
      {.name = "autodiff",
       .does = "append the backward pass and the accumulation of gradients",
       .needed = "training follows gradients",
       .applies = where_gradients_are,
       .run = append_backward_passes},
      {.name = "update",
       .does = "build the optimizer's update of each stage's parameters",
       .needed = "training changes weights",
       .applies = where_weights_change,
       .run = build_updates},
      // Before partitioning, which turns reshards into collectives of the type they have.
      {.name = "narrow_gathers",
       .does = "convert weights to bf16 before they are gathered, not after",
       .applies = between_chips,
       .run = narrow_gathers},
      {.name = "partition",
       .does = "turn programs into those of one chip, with the collectives their shardings need",
       .needed = "chips hold parts of tensors",
       .run = partition_programs},
      // After partitioning, so that what one program keeps for another has the sharding both want.
      {.name = "split",
       .does = "split each model stage into its forward and backward programs",
       .needed = "a pipeline's schedule runs them apart",
       .applies = in_pipelines,
       .run = split_programs},
      {.name = "remove_dead", .does = "drop nodes that no output depends on", .run = each(schedule::remove_dead)},
      {.name = "decompose",
       .does = "replace composite ops that the backend has no kernel for by primitives, or by loops for a compiler",
       .needed = "the backend runs only ops it has kernels for",
       .run = decompose},
      // Before folding: a product that is wide already can take the accumulator as its addend.
      {.name = "absorb_converts",
       .does = "let products that are read in f32 leave f32, and with epilogues gradients that are read in bf16 bf16; "
               "there the loss reads logits in bf16",
       .applies = if_we_schedule,
       .run = absorb_converts},
      {.name = "fold",
       .does = "add gradients to their sums, and with epilogues residuals, inside the ops that make them; make "
               "the gradients of a convolution in one kernel, and SwiGLU in the products around it",
       .applies = if_we_schedule,
       .run = fold},
      // After folding: what a product adds to by then is what its first part adds to.
      {.name = "split_loss",
       .does = "make logits, the loss and their gradients part by part of the rows, so that one part is alive at once",
       .applies = if_parts_run_at_full_rate,
       .run = split_loss},
      // After all that looks for converts beside products, and before fusion hides them.
      {.name = "convert_once",
       .does = "convert weights to bf16 once a step, not in every micro-step",
       .applies = if_micro_steps_repeat,
       .run = convert_once,
       .holds_more = would_hold_copies},
      // Before fusion, which would tie readers of different collectives together.
      {.name = "bucket",
       .does = "combine collectives that may travel together",
       .applies = if_we_schedule_chips,
       .run = bucket_collectives},
      {.name = "fuse",
       .does = "cluster elementwise ops with the broadcasts they read and their trailing reductions",
       .applies = if_we_schedule,
       .run = each(schedule::fuse),
       .leaves = ops::Form::clustered},
      {.name = "lower_elementwise",
       .does = "turn the elementwise ops that are left into fused nodes of one op each",
       .needed = "the backend has one kernel for all elementwise work, which runs fused nodes",
       .applies = if_we_schedule,
       .run = each(schedule::lower_elementwise),
       .leaves = ops::Form::fused},
      // Once all elementwise work is in clusters: what each reads and writes is known.
      {.name = "recompute_cheap",
       .does =
           "make elementwise values again where they are read later, where that moves fewer bytes and keeps no more",
       .applies = if_arithmetic_is_cheap,
       .run = recompute_cheap},
      {.name = "merge_siblings",
       .does = "run clusters that read the same tensor as one",
       .applies = if_we_run_clusters,
       .run = each(schedule::merge_siblings)},
      {.name = "order",
       .does = "order nodes so that few bytes are alive at once",
       .applies = if_we_schedule,
       .run = each(schedule::order_for_low_peak)},
      // Once the order is settled: what runs beside a collective depends on it.
      {.name = "overlap",
       .does = "split collectives into start and done, with work in between",
       .applies = if_we_schedule_chips,
       .run = overlap_collectives},
      // Around what is settled: copies take their places between nodes that stay where they are.
      {.name = "offload",
       .does = "keep the optimizer's state, and activations between the passes, in the host's memory, and copy them "
               "beside the work",
       .needed = "layout.offload says where they are",
       .applies = if_anything_is_offloaded,
       .run = offload},
      {.name = "assemble",
       .does =
           "lay the programs of each stage out along a step, in a pipeline once for each slot, and list their state",
       .needed = "it makes the step",
       .run = assemble_steps},
      {.name = "memory",
       .does = "give every buffer its offset",
       .needed = "nothing is allocated while a step runs",
       .applies = if_we_schedule,
       .run = plan_memory,
       .text = memory_text},
  };
  return kPasses;
}

Compiled compile(Compilation run, const Options& options) {
  const blocks::Parallel& parallel = run.plan.parallel;
  run.compiled.mesh = parallel.mesh;
  if (parallel.balanced_order) run.compiled.time_order = parallel.time_order(parallel.sequence_chunks);
  run_passes(all_passes(), options, run);
  run.compiled.parameters = std::move(run.forward.parameters);
  if (run.trains) run.compiled.expert_loads = std::move(run.forward.expert_loads);
  return std::move(run.compiled);
}

}  // namespace

Compiled compile_training(const plan::Plan& plan, const schedule::Target& target, const Options& options) {
  return compile({.plan = plan, .target = target, .trains = true}, options);
}

Compiled compile_micro_steps(const plan::Plan& plan, const schedule::Target& target, const Options& options) {
  MEGACPP_CHECK(plan.stages == 1) << "a pipeline's micro-steps are several programs";
  return compile({.plan = plan, .target = target, .trains = true, .has_update = false}, options);
}

Compiled compile_gradients(GradientRequest request, const schedule::Target& target, const Options& options) {
  MEGACPP_CHECK(request.cotangent.empty() || request.plan.stages == 1) << "a lone block has no pipeline";
  return compile({.plan = request.plan,
                  .target = target,
                  .cotangent = std::move(request.cotangent),
                  .forward = std::move(request.forward)},
                 options);
}

Compiled compile_forward(model::ForwardModel forward, const plan::Plan& plan, const schedule::Target& target,
                         const Options& options) {
  MEGACPP_CHECK(plan.stages == 1) << "the forward pass alone has no pipeline";
  return compile({.plan = plan, .target = target, .alone = ProgramKind::inference, .forward = std::move(forward)},
                 options);
}

std::vector<PassInfo> list_passes() {
  std::vector<PassInfo> list;
  for (const Pass& pass : all_passes()) list.push_back({pass.name, pass.does, pass.needed});
  return list;
}

}  // namespace megacpp::compile
