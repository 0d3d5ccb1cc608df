// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/sequence_chunks.h"

#include <numeric>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/shift_runs.h"

namespace megacpp::blocks {
namespace {

constexpr int64_t kRuns = 1, kTokens = 2;  // dimensions of [b, K, l, ..]

enum class Direction : int64_t { forwards, backwards };

// decay has the leading dimensions of x.
ValueId recur(ops::Builder& b, ValueId decay, ValueId x, Direction direction) {
  std::vector<int64_t> dims(static_cast<size_t>(b.type(decay).rank()));
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return b.one("linear_recurrence", {b.broadcast(decay, b.shape(x), dims), x},
               {{"dim", kRuns}, {"reverse", static_cast<int64_t>(direction)}});
}

// The dimensions of [b, K, ..] where `dims` names all but K.
std::vector<Dim> with_runs(std::vector<Dim> dims, Dim runs) {
  dims.insert(dims.begin() + kRuns, runs);
  return dims;
}

// The states at the ends of all runs, each from nothing, and the decays over them, as they reach the next run in time.
struct RunEnds {
  ValueId decay, ended;
};

// All of it goes through one gather: [b, K, .., n + 1] for the n numbers of `ended` to each of `decay`.
RunEnds ends_before(const BuildContext& context, const RunEnds& own, const std::vector<Dim>& tail) {
  ops::Builder& b = context.builder;
  const ir::Shape decay_shape = b.shape(own.decay), ended_shape = b.shape(own.ended);
  const int64_t last = b.type(own.decay).rank();
  const int64_t numbers = ir::num_elements(ended_shape) / ir::num_elements(decay_shape);
  ir::Shape column = decay_shape, columns = decay_shape;
  column.push_back(1);
  columns.push_back(numbers);
  const ValueId ended = b.reshape(own.ended, columns), decay = b.reshape(own.decay, column);
  std::vector<Dim> dims = {Dim::batch};
  dims.insert(dims.end(), tail.begin(), tail.begin() + (last - 2));
  dims.push_back(Dim::whole);
  const ValueId joined = b.concatenate({ended, decay}, last);
  const ValueId all = context.reshard(joined, with_runs(dims, Dim::sequence), with_runs(dims, Dim::whole));
  const ValueId before = ops::shift_whole_runs(b, all, {.balanced = context.parallel.balanced_order});
  const ValueId decay_before = b.slice(before, last, numbers, 1), ended_before = b.slice(before, last, 0, numbers);
  const ValueId decays = b.reshape(decay_before, decay_shape);
  return {decays, b.reshape(ended_before, ended_shape)};
}

// The last tokens of each run, which the convolution of the next one in time looks back to: [b, K, width - 1, c]
ValueId tail_of(const BuildContext& context, ValueId runs, int64_t history) {
  ops::Builder& b = context.builder;
  const int64_t length = b.type(runs).dim(kTokens);
  MEGACPP_REQUIRE(history <= length, E1005,
                  {.where = b.scope(),
                   .got = "runs of " + std::to_string(length) + " tokens",
                   .wanted = "at least the " + std::to_string(history) + " tokens the convolution looks back",
                   .next = "split the sequence over fewer chips"});
  return b.slice(runs, kTokens, length - history, history);
}

// What the tokens `before` a run of `length` add to its first outputs: [b, K, l, c]
ValueId from_history(const BuildContext& context, ValueId before, ValueId weight, int64_t length) {
  ops::Builder& b = context.builder;
  const int64_t history = b.type(before).dim(kTokens);
  std::vector<ValueId> operands = {b.pad(before, kTokens, 0, history), weight};
  // Only places of the tokens that look back count.
  if (const auto places = document_positions(context))
    operands.push_back(b.pad(b.slice(*places, kTokens, 0, history), kTokens, history, 0));
  const ValueId y = b.one("causal_conv", operands, {{"reverse", int64_t{0}}});
  return b.pad(b.slice(y, kTokens, history, history), kTokens, 0, length - history);
}

// decay where `is_kept` pred[b, K, l], else zero.
ValueId keep_decay(ops::Builder& b, ValueId decay, ValueId is_kept) {
  const ir::Shape shape = b.shape(decay);
  return b.select(b.broadcast(is_kept, shape, {0, 1, 2}), decay, b.constant(0.0, shape));
}

// Of the tokens [b, l, c] after those that the state "conv.x" of "conv.x.weight" holds: the same shape
ValueId convolve_next(const BuildContext& context, const Convolution& one) {
  ops::Builder& b = context.builder;
  const ValueId weight = context.weight(one.weight);
  const int64_t width = b.type(weight).dim(1);
  if (width == 1) return b.one("causal_conv", {one.x, weight}, {{"reverse", int64_t{0}}});
  const std::string port = one.weight.substr(0, one.weight.rfind('.'));
  const int64_t length = b.type(one.x).dim(1);
  const ValueId tokens = b.concatenate({context.decoding->state.at(port), one.x}, 1);
  context.decoding->next[port] = b.slice(tokens, 1, length, width - 1);
  return b.slice(b.one("causal_conv", {tokens, weight}, {{"reverse", int64_t{0}}}), 1, width - 1, length);
}

}  // namespace

std::optional<ValueId> document_positions(const BuildContext& context) {
  if (!context.document_positions) return std::nullopt;
  return context.builder.reshape(*context.document_positions, chunked_shape(context, {}));
}

// A token that is further into its document than into its run has none that began in between.
ValueId until_document(const BuildContext& context, ValueId decay) {
  const std::optional<ValueId> places = document_positions(context);
  if (!places) return decay;
  ops::Builder& b = context.builder;
  const ValueId in_run = b.iota(b.shape(*places), kTokens, ir::DType::f32);
  return keep_decay(b, decay, b.compare(in_run, b.convert(*places, ir::DType::f32), "lt"));
}

ValueId since_document(const BuildContext& context, ValueId decay) {
  const std::optional<ValueId> places = document_positions(context);
  if (!places) return decay;
  ops::Builder& b = context.builder;
  const ir::Shape shape = b.shape(*places);
  const ValueId last = b.broadcast(b.convert(at_end(context, *places), ir::DType::f32), shape, {0, 1});
  const ValueId in_run = b.iota(shape, kTokens, ir::DType::f32);
  const ValueId to_end = b.sub(b.constant(static_cast<double>(shape[kTokens] - 1), shape), in_run);
  return keep_decay(b, decay, b.compare(last, to_end, "ge"));
}

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

ValueId carry_in_time(const BuildContext& context, ValueId decay, ValueId ended, const std::vector<Dim>& tail) {
  ops::Builder& b = context.builder;
  const RunEnds before = ends_before(context, {decay, ended}, tail);
  std::vector<Dim> dims = tail;
  dims.insert(dims.begin(), Dim::batch);
  const auto to_own_runs = [&](ValueId v) {
    return context.reshard(v, with_runs(dims, Dim::whole), with_runs(dims, Dim::sequence));
  };
  if (!context.parallel.balanced_order) return to_own_runs(recur(b, before.decay, before.ended, Direction::forwards));
  const ops::RunHalves decays = ops::split_halves(b, before.decay);
  const ops::RunHalves ends = ops::split_halves(b, before.ended);
  const ValueId early = recur(b, decays.early, ends.early, Direction::forwards);
  // The late half starts from the last early state, one place behind its own end.
  const int64_t half = b.type(early).dim(kRuns);
  const ValueId late_decays = b.pad(decays.late, kRuns, 0, 1);
  const ValueId last_early = b.slice(early, kRuns, half - 1, 1);
  const ValueId late_ends = b.concatenate({ends.late, last_early}, kRuns);
  const ValueId late = recur(b, late_decays, late_ends, Direction::backwards);
  const ValueId own_late = b.slice(late, kRuns, 0, half);
  return to_own_runs(ops::join_halves(b, {early, own_late}));
}

std::vector<ValueId> convolve(const BuildContext& context, const std::vector<Convolution>& each) {
  ops::Builder& b = context.builder;
  if (context.decoding != nullptr) {
    std::vector<ValueId> tokens;
    for (const Convolution& one : each) tokens.push_back(convolve_next(context, one));
    return tokens;
  }
  std::vector<ValueId> runs, weights, results;
  for (const Convolution& one : each) {
    runs.push_back(b.reshape(one.x, chunked_shape(context, {b.type(one.x).dim(-1)})));
    weights.push_back(context.weight(one.weight));
    std::vector<ValueId> operands = {runs.back(), weights.back()};
    if (const auto places = document_positions(context)) operands.push_back(*places);
    results.push_back(b.one("causal_conv", operands, {{"reverse", int64_t{0}}}));
  }
  const int64_t history = b.type(weights[0]).dim(1) - 1;
  if (is_chunked(context) && history > 0) {
    std::vector<ValueId> tails;
    for (const ValueId run : runs) tails.push_back(tail_of(context, run, history));
    ops::Scope scope(b, "carry");
    const std::vector<ValueId> before =
        b.node("shift_runs", tails, {{"balanced", int64_t{context.parallel.balanced_order ? 1 : 0}}});
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = b.add(results[i], from_history(context, before[i], weights[i], b.type(runs[i]).dim(kTokens)));
  }
  for (size_t i = 0; i < results.size(); ++i) results[i] = b.reshape(results[i], b.shape(each[i].x));
  return results;
}

std::vector<CollectiveAdvice> sequence_advice() {
  return {
      {"state handed along the sequence",
       [](std::string_view, const std::vector<std::string>& axes) { return axes.size() == 1 && axes[0] == "context"; },
       "layout.context_parallel=1"}};
}

}  // namespace megacpp::blocks
