// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/shift_runs.h"

#include <algorithm>
#include <utility>

#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/partition_rule.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

constexpr size_t kRuns = 1;  // dimension

Types infer_shift_runs(const Types& operands, const ir::Attrs& attrs) {
  const auto has_runs = [&](const ir::TensorType& type) {
    return type.rank() >= 2 && is_float(type.dtype) && type.dim(0) == operands[0].dim(0) &&
           type.dim(kRuns) == operands[0].dim(kRuns) && (!attrs.flag("balanced") || type.dim(kRuns) % 2 == 0);
  };
  require_operands(!operands.empty() && std::all_of(operands.begin(), operands.end(), has_runs), "shift_runs", operands,
                   "one or more of floats [b,K,..], K even in the balanced order");
  return operands;
}

// Operands share the batch and the runs. What they do not share counts as whole: a factor that some result lacks would
// be one that is summed. The rule and the decomposition split it.
Factors shift_runs_factors(const NodeView& view) {
  std::string tensors, whole = "k ";
  for (size_t i = 0; i < view.operands.size(); ++i) {
    const std::string own = numbered_names("t" + std::to_string(i) + "d", view.operands[i].rank() - 2);
    tensors += (i == 0 ? "b k " : ", b k ") + own;
    whole += own;
  }
  return factors_from(view, tensors + " -> " + tensors, whole);
}

Cotangents shift_runs_cotangents(const GradArgs& args) {
  Builder& b = args.builder;
  std::vector<ValueId> cotangents;
  for (size_t i = 0; i < args.results.size(); ++i)
    cotangents.push_back(args.cotangents[i] ? *args.cotangents[i] : b.constant_like(0.0, args.results[i]));
  ir::Attrs attrs = args.attrs;
  attrs.set("reverse", int64_t{args.attrs.flag("reverse") ? 0 : 1});
  const std::vector<ValueId> back = b.node("shift_runs", cotangents, attrs);
  return {back.begin(), back.end()};
}

void reference_shift_runs(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const RunShift shift = run_shift(attrs);
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::Shape& shape = operands[i].type.shape;
    const int64_t runs = shape[kRuns];
    for (int64_t time = 0; time < runs; ++time) {
      const int64_t from = shift.reverse ? time + 1 : time - 1;
      if (from < 0 || from >= runs) continue;
      for_each_index(shape, [&](ir::Shape index) {
        if (index[kRuns] != stored_run(time, runs, shift.balanced)) return;
        const int64_t to = flat_index(index, shape);
        index[kRuns] = stored_run(from, runs, shift.balanced);
        results[i][to] = operands[i][flat_index(index, shape)];
      });
    }
  }
}

// Run i gets what run i - 1 holds; the first gets zero.
ValueId shift_up(Builder& b, ValueId v) {
  const int64_t runs = b.type(v).dim(kRuns);
  return runs == 1 ? b.constant_like(0.0, v) : b.pad(b.slice(v, kRuns, 0, runs - 1), kRuns, 1, 0);
}

// Run i gets what run i + 1 holds; the last gets `last`.
ValueId shift_down(Builder& b, ValueId v, ValueId last) {
  const int64_t runs = b.type(v).dim(kRuns);
  return runs == 1 ? last : b.concatenate({b.slice(v, kRuns, 1, runs - 1), last}, kRuns);
}

ValueId run_of(Builder& b, ValueId v, int64_t run) { return b.slice(v, kRuns, run, 1); }
ValueId last_run(Builder& b, ValueId v) { return run_of(b, v, b.type(v).dim(kRuns) - 1); }

// ---- Split runs ----

// Chip c of n holds equal pieces in time order, or in the balanced order run c and run 2n-1-c. All operands travel in
// one call for each direction.
class SplitRuns {
 public:
  SplitRuns(PartitionContext& context, const ir::Axes& axes)
      : b_(context.builder()), mesh_(context.mesh()), axes_(axes), shift_(run_shift(context.view().attrs)) {}

  std::vector<ValueId> shifted(const std::vector<ValueId>& locals) {
    return shift_.balanced ? shifted_pairs(locals) : shifted_pieces(locals);
  }

 private:
  std::vector<ValueId> shifted_pieces(const std::vector<ValueId>& locals) {
    std::vector<ValueId> edges, results;
    for (const ValueId v : locals) edges.push_back(shift_.reverse ? run_of(b_, v, 0) : last_run(b_, v));
    const std::vector<ValueId> arrived = pass(edges, shift_.reverse ? -1 : 1);
    const ValueId has_none = is_chip(shift_.reverse ? chips() - 1 : 0);
    for (size_t i = 0; i < locals.size(); ++i) {
      const ValueId edge = choose(has_none, b_.constant_like(0.0, arrived[i]), arrived[i]);
      const int64_t others = b_.type(locals[i]).dim(kRuns) - 1;
      std::vector<ValueId> parts = {edge};
      if (others > 0)
        parts.insert(shift_.reverse ? parts.begin() : parts.end(),
                     b_.slice(locals[i], kRuns, shift_.reverse ? 1 : 0, others));
      results.push_back(b_.concatenate(parts, kRuns));
    }
    return results;
  }

  // Early runs go up the chips in time and late ones down. Turned around in time, early and late change places.
  std::vector<ValueId> shifted_pairs(const std::vector<ValueId>& locals) {
    std::vector<ValueId> rising, falling, results;
    for (const ValueId v : locals) {
      rising.push_back(run_of(b_, v, shift_.reverse ? 1 : 0));
      falling.push_back(run_of(b_, v, shift_.reverse ? 0 : 1));
    }
    const std::vector<ValueId> from_below = pass(rising, 1), from_above = pass(falling, -1);
    const ValueId is_first = is_chip(0), is_last = is_chip(chips() - 1);
    for (size_t i = 0; i < locals.size(); ++i) {
      const ValueId risen = choose(is_first, b_.constant_like(0.0, from_below[i]), from_below[i]);
      const ValueId fallen = choose(is_last, rising[i], from_above[i]);
      results.push_back(
          b_.concatenate(shift_.reverse ? std::vector{fallen, risen} : std::vector{risen, fallen}, kRuns));
    }
    return results;
  }

  int64_t chips() const { return mesh_.size(axes_); }

  std::vector<ValueId> pass(const std::vector<ValueId>& values, int64_t shift) {
    return b_.node("permute", values,
                   {{"axes", ir::to_string(axes_, mesh_)},
                    {"parts", chips()},
                    {"shift", shift},
                    {"cause", std::string("memory over a split sequence: the end of each run to the next in time")}});
  }

  ValueId is_chip(int64_t place) {
    const ValueId index = shard_index(b_, axes_, mesh_);
    return b_.compare(index, b_.constant(static_cast<double>(place), {}, ir::DType::i32), "eq");
  }

  ValueId choose(ValueId condition, ValueId on_true, ValueId on_false) {
    return b_.select(b_.broadcast(condition, b_.shape(on_true), {}), on_true, on_false);
  }

  Builder& b_;
  const ir::Mesh& mesh_;
  const ir::Axes& axes_;
  RunShift shift_;
};

std::vector<PartitionedResult> partition(PartitionContext& context) {
  const ir::Axes axes = context.sharding(0).dims[kRuns];
  const int64_t chips = context.mesh().size(axes);
  if (chips == 1) return {};
  const int64_t runs = context.view().operands[0].dim(kRuns);
  if (runs % chips != 0 || (context.view().attrs.flag("balanced") && runs != 2 * chips)) return {};
  for (size_t i = 0; i < context.view().operands.size(); ++i)
    if (context.sharding(i).dims[kRuns] != axes) return {};
  std::vector<ValueId> locals;
  std::vector<ir::Sharding> shardings;
  for (size_t i = 0; i < context.view().operands.size(); ++i) {
    shardings.push_back(context.sharding(i));
    locals.push_back(context.local(i, shardings[i]));
  }
  const std::vector<ValueId> shifted = SplitRuns(context, axes).shifted(locals);
  std::vector<PartitionedResult> results;
  for (size_t i = 0; i < shifted.size(); ++i) results.push_back({shifted[i], shardings[i]});
  return results;
}

Sample shift_runs_sample(std::string name, std::vector<ir::Shape> shapes, RunShift shift) {
  Types operands;
  for (ir::Shape& shape : shapes) operands.push_back({ir::DType::f32, std::move(shape)});
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {{"balanced", int64_t{shift.balanced ? 1 : 0}}, {"reverse", int64_t{shift.reverse ? 1 : 0}}}};
}

}  // namespace

RunShift run_shift(const ir::Attrs& attrs) { return {attrs.flag("balanced"), attrs.flag("reverse")}; }

int64_t stored_run(int64_t time, int64_t runs, bool balanced) {
  if (!balanced) return time;
  return time < runs / 2 ? 2 * time : 2 * (runs - 1 - time) + 1;
}

RunHalves split_halves(Builder& b, ValueId v) {
  ir::Shape half = b.shape(v);
  half[kRuns] /= 2;
  ir::Shape pairs = half;
  pairs.insert(pairs.begin() + kRuns + 1, 2);
  const ValueId paired = b.reshape(v, pairs);
  const ValueId early = b.reshape(b.slice(paired, kRuns + 1, 0, 1), half);
  const ValueId late = b.reshape(b.slice(paired, kRuns + 1, 1, 1), half);
  return {early, late};
}

ValueId join_halves(Builder& b, const RunHalves& halves) {
  ir::Shape whole = b.shape(halves.early), column = whole;
  whole[kRuns] *= 2;
  column.insert(column.begin() + kRuns + 1, 1);
  const ValueId early = b.reshape(halves.early, column);
  const ValueId late = b.reshape(halves.late, column);
  return b.reshape(b.concatenate({early, late}, kRuns + 1), whole);
}

ValueId shift_whole_runs(Builder& b, ValueId v, RunShift shift) {
  if (!shift.balanced && !shift.reverse) return shift_up(b, v);
  if (!shift.balanced) return shift_down(b, v, b.constant_like(0.0, run_of(b, v, 0)));
  // Turned around in time, early and late change places.
  RunHalves halves = split_halves(b, v);
  if (shift.reverse) std::swap(halves.early, halves.late);
  const ValueId late = shift_down(b, halves.late, last_run(b, halves.early));
  halves = {shift_up(b, halves.early), late};
  if (shift.reverse) std::swap(halves.early, halves.late);
  return join_halves(b, halves);
}

OpDef shift_runs_def() {
  OpDef def;
  def.name = "shift_runs";
  def.doc =
      "each run of operands [b,K,..] gets what the run before it in time holds (reverse: after it), the first zero; "
      "balanced: runs are stored as 0, K-1, 1, K-2, ..";
  def.infer = infer_shift_runs;
  def.factors = shift_runs_factors;
  def.grad = shift_runs_cotangents;
  def.cost = [](const NodeView&) { return Cost{}; };
  def.reference = reference_shift_runs;
  def.decompose = [](Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
    std::vector<ValueId> results;
    for (const ValueId operand : operands) results.push_back(shift_whole_runs(b, operand, run_shift(attrs)));
    return results;
  };
  def.linear = linear_together;
  def.partition = partition;
  def.samples = [] {
    return std::vector<Sample>{shift_runs_sample("in_order", {{2, 4, 3}, {2, 4, 1, 2}}, {}),
                               shift_runs_sample("in_order_reverse", {{1, 6, 2}}, {.reverse = true}),
                               shift_runs_sample("balanced", {{2, 6, 2}, {2, 6, 3, 2}}, {.balanced = true}),
                               shift_runs_sample("balanced_reverse", {{1, 12, 2}}, {.balanced = true, .reverse = true}),
                               shift_runs_sample("balanced_pair", {{2, 2, 5}}, {.balanced = true}),
                               shift_runs_sample("one_run", {{2, 1, 3}}, {})};
  };
  return def;
}

}  // namespace megacpp::ops
