// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/lower_reshard.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/axis_sets.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/partition_rule.h"

namespace megacpp::partition {
namespace {

using ir::Axes;
using ir::AxisId;
using ir::Sharding;
using ir::ValueId;
using Kind = ReshardStep::Kind;

bool is_prefix(const Axes& head, const Axes& whole) {
  return head.size() <= whole.size() && std::equal(head.begin(), head.end(), whole.begin());
}

void remove(Axes& axes, AxisId axis) { axes.erase(std::find(axes.begin(), axes.end(), axis)); }

/// Empty for a step of the chip alone.
std::string_view op_of(Kind kind) {
  switch (kind) {
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::all_reduce:
      return "all_reduce";
    case Kind::all_to_all:
      return "all_to_all";
    case Kind::all_gather:
      return "all_gather";
    case Kind::slice:
    case Kind::to_partial:
      break;
  }
  return "";
}

class Planner {
 public:
  Planner(const Sharding& from, const Sharding& to, const ir::Shape& whole, const ir::Mesh& mesh)
      : now_(from), to_(to), whole_(whole), mesh_(mesh) {}

  std::vector<ReshardStep> run() {
    scatter_sums();
    add_up_rest();
    while (now_.dims != to_.dims)
      if (!slice_unused() && !swap_dims()) gather();
    become_partial();
    MEGACPP_CHECK(now_ == to_) << "reshard ends at " << to_string(now_, mesh_) << ", not " << to_string(to_, mesh_);
    return std::move(steps_);
  }

 private:
  void push(ReshardStep step) {
    step.after = now_;
    steps_.push_back(std::move(step));
  }

  bool must_be_summed(AxisId axis) const {
    return ir::contains(now_.unreduced, axis) && !ir::contains(to_.unreduced, axis);
  }

  // Where a dimension's next wanted axes are summed ones, each chip receives the sum of its own part only.
  void scatter_sums() {
    for (size_t d = 0; d < now_.dims.size(); ++d) {
      if (!is_prefix(now_.dims[d], to_.dims[d])) continue;
      Axes run;
      for (size_t i = now_.dims[d].size(); i < to_.dims[d].size() && must_be_summed(to_.dims[d][i]); ++i) {
        run.push_back(to_.dims[d][i]);
        if (!is_even(d)) break;
      }
      if (run.empty()) continue;
      for (const AxisId axis : run) {
        remove(now_.unreduced, axis);
        now_.dims[d].push_back(axis);
      }
      push({.kind = Kind::reduce_scatter, .axes = run, .dim = d, .after = {}});
      --d;  // an uneven dimension goes one axis at a time
    }
  }

  bool is_even(size_t d) const { return ir::divides(whole_[d], to_.dims[d], mesh_); }

  void add_up_rest() {
    Axes rest;
    for (const AxisId axis : now_.unreduced)
      if (!ir::contains(to_.unreduced, axis)) rest.push_back(axis);
    if (rest.empty()) return;
    for (const AxisId axis : rest) remove(now_.unreduced, axis);
    push({.kind = Kind::all_reduce, .axes = rest, .after = {}});
  }

  bool slice_unused() {
    for (size_t d = 0; d < now_.dims.size(); ++d) {
      if (!is_prefix(now_.dims[d], to_.dims[d]) || now_.dims[d] == to_.dims[d]) continue;
      const AxisId next = to_.dims[d][now_.dims[d].size()];
      if (now_.splits(next)) continue;
      now_.dims[d].push_back(next);
      push({.kind = Kind::slice, .axes = {next}, .dim = d, .after = {}});
      return true;
    }
    return false;
  }

  bool swap_dims() {
    for (size_t from = 0; from < now_.dims.size(); ++from) {
      if (now_.dims[from].empty() || is_prefix(now_.dims[from], to_.dims[from])) continue;
      const AxisId moved = now_.dims[from].back();
      for (size_t d = 0; d < now_.dims.size(); ++d) {
        if (d == from || !is_prefix(now_.dims[d], to_.dims[d]) || now_.dims[d] == to_.dims[d]) continue;
        if (to_.dims[d][now_.dims[d].size()] != moved) continue;
        now_.dims[from].pop_back();
        now_.dims[d].push_back(moved);
        push({.kind = Kind::all_to_all, .axes = {moved}, .dim = d, .from_dim = from, .after = {}});
        return true;
      }
    }
    return false;
  }

  void gather() {
    for (size_t d = 0; d < now_.dims.size(); ++d) {
      if (is_prefix(now_.dims[d], to_.dims[d])) continue;
      size_t common = 0;
      while (common < to_.dims[d].size() && now_.dims[d][common] == to_.dims[d][common]) ++common;
      if (!ir::divides(whole_[d], now_.dims[d], mesh_)) common = now_.dims[d].size() - 1;  // one axis at a time
      const Axes joined(now_.dims[d].begin() + static_cast<std::ptrdiff_t>(common), now_.dims[d].end());
      now_.dims[d].resize(common);
      push({.kind = Kind::all_gather, .axes = joined, .dim = d, .after = {}});
      return;
    }
    MEGACPP_CHECK(false) << "no step leads from " << to_string(now_, mesh_) << " to " << to_string(to_, mesh_);
  }

  void become_partial() {
    Axes added;
    for (const AxisId axis : to_.unreduced)
      if (!ir::contains(now_.unreduced, axis)) {
        MEGACPP_CHECK(!now_.splits(axis)) << "axis " << mesh_.name(axis) << " is split, it cannot hold partial sums";
        added.push_back(axis);
      }
    if (added.empty()) return;
    now_.unreduced.insert(now_.unreduced.end(), added.begin(), added.end());
    std::sort(now_.unreduced.begin(), now_.unreduced.end());
    push({.kind = Kind::to_partial, .axes = added, .after = {}});
  }

  Sharding now_;
  const Sharding& to_;
  const ir::Shape& whole_;
  const ir::Mesh& mesh_;
  std::vector<ReshardStep> steps_;
};

class Lowering {
 public:
  Lowering(ops::Builder& b, const ir::Shape& whole, const ir::Mesh& mesh, const std::string& cause)
      : b_(b), whole_(whole), mesh_(mesh), cause_(cause) {}

  ValueId step(ValueId x, const ReshardStep& step) {
    const int64_t dim = static_cast<int64_t>(step.dim), parts = mesh_.size(step.axes);
    switch (step.kind) {
      case Kind::reduce_scatter:
        return collective(padded(x, dim, parts), step, {{"dims", std::vector<int64_t>{dim}}});
      case Kind::all_reduce:
        return collective(x, step, {{"kind", std::string("sum")}});
      case Kind::slice:
        return b_.one("shard_slice", {x}, {{"axes", ir::to_string(step.axes, mesh_)}, {"parts", parts}, {"dim", dim}});
      case Kind::all_to_all: {
        const int64_t from = static_cast<int64_t>(step.from_dim);
        const ValueId moved = collective(padded(x, dim, parts), step, {{"split", dim}, {"concat", from}});
        return trimmed(moved, step.from_dim, step.after);
      }
      case Kind::all_gather:
        return trimmed(collective(x, step, {{"dims", std::vector<int64_t>{dim}}}), step.dim, step.after);
      case Kind::to_partial:
        return only_on_first(x, step.axes);
    }
    return x;
  }

 private:
  ValueId collective(ValueId x, const ReshardStep& step, ir::Attrs attrs) {
    attrs.set("axes", ir::to_string(step.axes, mesh_));
    attrs.set("parts", mesh_.size(step.axes));
    attrs.set("cause", cause_);
    b_.set_role(ir::Role::collective);
    const ValueId result = b_.one(op_of(step.kind), {x}, std::move(attrs));
    b_.set_role(ir::Role::temporary);
    return result;
  }

  ValueId padded(ValueId x, int64_t dim, int64_t parts) {
    const int64_t missing = (parts - b_.type(x).dim(dim) % parts) % parts;
    return missing == 0 ? x : b_.pad(x, dim, 0, missing);
  }

  ValueId trimmed(ValueId x, size_t d, const Sharding& after) {
    return b_.slice(x, static_cast<int64_t>(d), 0, ir::local_size(whole_[d], after.dims[d], mesh_));
  }

  bool is_zero(ValueId x) const {
    const ir::Node& maker = b_.graph().producer(x);
    return maker.op == "constant" && maker.attrs.real("value") == 0.0;
  }

  // The value on the first chip of each group, zero on the others: partial sums without any exchange.
  ValueId only_on_first(ValueId x, const Axes& axes) {
    if (is_zero(x)) return x;
    const ValueId index = ops::shard_index(b_, axes, mesh_);
    const ValueId zero_index = b_.constant(0.0, {}, ir::DType::i32);
    const ValueId is_first = b_.broadcast(b_.compare(index, zero_index, "eq"), b_.shape(x), {});
    return b_.select(is_first, x, b_.constant_like(0.0, x));
  }

  ops::Builder& b_;
  const ir::Shape& whole_;
  const ir::Mesh& mesh_;
  const std::string& cause_;
};

}  // namespace

std::vector<ReshardStep> plan_reshard(const Sharding& from, const Sharding& to, const ir::Shape& whole,
                                      const ir::Mesh& mesh) {
  if (from == to) return {};
  return Planner(from, to, whole, mesh).run();
}

bool is_free(const std::vector<ReshardStep>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const ReshardStep& step) { return op_of(step.kind).empty(); });
}

int64_t sent_bytes(const std::vector<ReshardStep>& steps, const Sharding& from, const ir::TensorType& whole,
                   const ir::Mesh& mesh) {
  int64_t bytes = 0;
  const Sharding* now = &from;
  for (const ReshardStep& step : steps) {
    const int64_t own = ir::TensorType{whole.dtype, ir::local_shape(whole.shape, *now, mesh)}.bytes();
    const ops::OpDef* const op = ops::find_op(op_of(step.kind));
    if (op != nullptr && op->transfer) bytes += op->transfer->sent_bytes(own, mesh.size(step.axes));
    now = &step.after;
  }
  return bytes;
}

Sharding reshard_target(const ir::Node& reshard, const Sharding& from, const ir::Mesh& mesh) {
  Sharding to = ir::parse_sharding(reshard.attrs.text("to"), mesh);
  if (!reshard.attrs.flag("partial")) return to;
  Axes used;
  for (const Axes& axes : to.dims) used.insert(used.end(), axes.begin(), axes.end());
  to.unreduced = ir::minus(from.unreduced, used);
  return to;
}

ValueId lower_reshard(ops::Builder& builder, const Reshard& reshard, const ir::Mesh& mesh) {
  ValueId local = reshard.local;
  MEGACPP_CHECK(builder.shape(local) == ir::local_shape(reshard.whole, reshard.from, mesh))
      << "a local value " << to_string(builder.type(local)) << " is not " << to_string(reshard.from, mesh) << " of "
      << ir::to_string(reshard.whole) << ": " << reshard.cause;
  Lowering lowering(builder, reshard.whole, mesh, reshard.cause);
  for (const ReshardStep& step : reshard.steps) local = lowering.step(local, step);
  return local;
}

}  // namespace megacpp::partition
