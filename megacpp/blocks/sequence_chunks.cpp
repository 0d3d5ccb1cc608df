// SPDX-License-Identifier: Apache-2.0
#include "megacpp/blocks/sequence_chunks.h"

#include <numeric>

#include "megacpp/base/error.h"

namespace megacpp::blocks {
namespace {

constexpr int64_t kRuns = 1, kTokens = 2;  // dimensions of [b, K, l, ..]

// In the balanced order every other run is of the late half of the sequence, which then lies backwards in time.
struct Halves {
  ValueId early, late;  // [b, K / 2, ..]
};

Halves split_halves(ops::Builder& b, ValueId v) {
  ir::Shape half = b.shape(v);
  half[kRuns] /= 2;
  ir::Shape pairs = half;
  pairs.insert(pairs.begin() + kRuns + 1, 2);
  const ValueId paired = b.reshape(v, pairs);
  const ValueId early = b.reshape(b.slice(paired, kRuns + 1, 0, 1), half);
  const ValueId late = b.reshape(b.slice(paired, kRuns + 1, 1, 1), half);
  return {early, late};
}

ValueId join_halves(ops::Builder& b, const Halves& halves) {
  ir::Shape whole = b.shape(halves.early), column = whole;
  whole[kRuns] *= 2;
  column.insert(column.begin() + kRuns + 1, 1);
  const ValueId early = b.reshape(halves.early, column);
  const ValueId late = b.reshape(halves.late, column);
  return b.reshape(b.concatenate({early, late}, kRuns + 1), whole);
}

// Run i gets what run i - 1 holds; the first gets zero.
ValueId shift_later(ops::Builder& b, ValueId v) {
  const int64_t runs = b.type(v).dim(kRuns);
  return runs == 1 ? b.constant_like(0.0, v) : b.pad(b.slice(v, kRuns, 0, runs - 1), kRuns, 1, 0);
}

// Run i gets what run i + 1 holds; the last gets `last`.
ValueId shift_earlier(ops::Builder& b, ValueId v, ValueId last) {
  const int64_t runs = b.type(v).dim(kRuns);
  return runs == 1 ? last : b.concatenate({b.slice(v, kRuns, 1, runs - 1), last}, kRuns);
}

ValueId last_run(ops::Builder& b, ValueId v) { return b.slice(v, kRuns, b.type(v).dim(kRuns) - 1, 1); }

ValueId shift(const BuildContext& context, ValueId v) {
  ops::Builder& b = context.builder;
  if (!context.parallel.balanced_order) return shift_later(b, v);
  const auto [early, late] = split_halves(b, v);
  const ValueId early_shifted = shift_later(b, early);
  const ValueId late_shifted = shift_earlier(b, late, last_run(b, early));
  return join_halves(b, {early_shifted, late_shifted});
}

// Runs pass what they hold to each other where all of it is whole; from there back to where each run lies.
ValueId lay_with_runs(const BuildContext& context, ValueId v, const std::vector<Dim>& tail) {
  std::vector<Dim> from = {Dim::batch, Dim::whole}, to = {Dim::batch, Dim::sequence};
  from.insert(from.end(), tail.begin(), tail.end());
  to.insert(to.end(), tail.begin(), tail.end());
  return context.reshard(v, from, to);
}

enum class Direction : int64_t { forwards, backwards };

// decay has the leading dimensions of x.
ValueId recur(ops::Builder& b, ValueId decay, ValueId x, Direction direction) {
  std::vector<int64_t> dims(static_cast<size_t>(b.type(decay).rank()));
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return b.one("linear_recurrence", {b.broadcast(decay, b.shape(x), dims), x},
               {{"dim", kRuns}, {"reverse", static_cast<int64_t>(direction)}});
}

// What the last tokens of the run before add to the first outputs of a run: [b, K, l, c]
ValueId from_history(const BuildContext& context, ValueId runs, ValueId weight, Dim channels) {
  ops::Builder& b = context.builder;
  const int64_t length = b.type(runs).dim(kTokens), history = b.type(weight).dim(1) - 1;
  MEGACPP_REQUIRE(history <= length, E1005,
                  {.where = b.scope(),
                   .got = "runs of " + std::to_string(length) + " tokens",
                   .wanted = "at least the " + std::to_string(history) + " tokens the convolution looks back",
                   .next = "split the sequence over fewer chips"});
  ops::Scope scope(b, "carry");
  const ValueId tails = b.slice(runs, kTokens, length - history, history);
  const ValueId before = b.pad(shift_in_time(context, tails, {Dim::whole, channels}), kTokens, 0, history);
  const ValueId y = b.one("causal_conv", {before, weight}, {{"reverse", int64_t{0}}});
  return b.pad(b.slice(y, kTokens, history, history), kTokens, 0, length - history);
}

}  // namespace

ir::Shape chunked_shape(const BuildContext& context, const ir::Shape& tail) {
  const int64_t runs = context.parallel.sequence_chunks, sequence = context.dims.sequence;
  MEGACPP_CHECK(sequence % runs == 0) << sequence << " tokens in " << runs << " runs";
  ir::Shape shape = {context.dims.batch};
  if (is_chunked(context)) shape.push_back(runs);
  shape.push_back(sequence / runs);
  shape.insert(shape.end(), tail.begin(), tail.end());
  return shape;
}

ValueId at_end(const BuildContext& context, ValueId v) {
  ops::Builder& b = context.builder;
  ir::Shape shape = b.shape(v);
  const int64_t length = shape[kTokens];
  shape.erase(shape.begin() + kTokens);
  return b.reshape(b.slice(v, kTokens, length - 1, 1), shape);
}

ValueId shift_in_time(const BuildContext& context, ValueId v, const std::vector<Dim>& tail) {
  return lay_with_runs(context, shift(context, v), tail);
}

ValueId carry_in_time(const BuildContext& context, ValueId decay, ValueId ended, const std::vector<Dim>& tail) {
  ops::Builder& b = context.builder;
  const ValueId decay_before = shift(context, decay);
  const ValueId ended_before = shift(context, ended);
  if (!context.parallel.balanced_order)
    return lay_with_runs(context, recur(b, decay_before, ended_before, Direction::forwards), tail);
  const Halves decays = split_halves(b, decay_before);
  const Halves ends = split_halves(b, ended_before);
  const ValueId early = recur(b, decays.early, ends.early, Direction::forwards);
  // The late half starts from the last early state, one place behind its own end.
  const ValueId late_decays = b.pad(decays.late, kRuns, 0, 1);
  const ValueId late_ends = b.concatenate({ends.late, last_run(b, early)}, kRuns);
  const ValueId late = recur(b, late_decays, late_ends, Direction::backwards);
  const ValueId own_late = b.slice(late, kRuns, 0, b.type(ends.late).dim(kRuns));
  return lay_with_runs(context, join_halves(b, {early, own_late}), tail);
}

ValueId convolve(const BuildContext& context, ValueId x, const std::string& weight, Dim channels) {
  ops::Builder& b = context.builder;
  const ValueId w = context.weight(weight);
  const ValueId runs = b.reshape(x, chunked_shape(context, {b.type(x).dim(-1)}));
  ValueId y = b.one("causal_conv", {runs, w}, {{"reverse", int64_t{0}}});
  if (is_chunked(context) && b.type(w).dim(1) > 1) y = b.add(y, from_history(context, runs, w, channels));
  return b.reshape(y, b.shape(x));
}

}  // namespace megacpp::blocks
