// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/recurrent.h"

#include <cmath>

#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/activation.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/sequence_chunks.h"
#include "megacpp/program/ops/rg_lru.h"

namespace megacpp::blocks {
namespace {

std::vector<ConfigKey> keys() {
  using namespace schema;  // ranges and limits
  return {
      setting<&Recurrent::width>("width", between(1, kMaxWidth), "Width of the recurrence."),
      setting<&Recurrent::heads>("heads", between(1, kMaxParts),
                                 "Blocks of the block-diagonal gates; divides the width."),
      setting<&Recurrent::conv_width>("conv_width", between(1, kMaxParts), "Taps of the causal depthwise convolution."),
      setting<&Recurrent::document_mask>("document_mask", any(),
                                         "Start state and convolution anew at each packed document."),
  };
}

void check(const ConfigCheck& check) {
  const Recurrent& r = check.config.as<Recurrent>();
  require_divides(check, {check.path("width"), r.width, check.path("heads"), r.heads});
}

Traits traits(const Config& config) {
  const Recurrent& r = config.as<Recurrent>();
  Traits traits{.widths = {{"width", r.width}},
                .splits = {{.key = "heads", .count = r.heads, .dim = Dim::width}},
                .history = r.conv_width - 1,
                .is_recurrent = true,
                .reads_document_positions = r.document_mask};
  if (r.document_mask) traits.features = {"document_mask"};
  return traits;
}

// The tokens the convolution looks back to, and the state of the recurrence.
std::vector<StatePort> state(const Dims& dims, const Config& config) {
  const Recurrent& r = config.as<Recurrent>();
  return {{"conv", {dims.compute, {dims.batch, r.conv_width - 1, r.width}}, {Dim::batch, Dim::whole, Dim::width}},
          {"rg_lru", {ir::DType::f32, {dims.batch, r.width}}, {Dim::batch, Dim::width}}};
}

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const Recurrent& r = config.as<Recurrent>();
  const int64_t bw = r.block_width();
  const Init gate = Init::normal(std::sqrt(0.01 / static_cast<double>(bw)));
  const Init conv = Init::normal(std::sqrt(0.01 / static_cast<double>(r.conv_width)));
  return {{"linear_x.weight", {dims.hidden, r.width}, {Dim::whole, Dim::width}, Init::normal(dims.init_std)},
          {"linear_x.bias", {r.width}, {Dim::width}, Init::zeros(), ParameterKind::bias},
          {"linear_y.weight", {dims.hidden, r.width}, {Dim::whole, Dim::width}, Init::normal(dims.init_std)},
          {"linear_y.bias", {r.width}, {Dim::width}, Init::zeros(), ParameterKind::bias},
          {"conv.weight", {r.width, r.conv_width}, {Dim::width, Dim::whole}, conv, ParameterKind::convolution},
          {"conv.bias", {r.width}, {Dim::width}, Init::zeros(), ParameterKind::bias},
          {"input_gate.weight", {r.heads, bw, bw}, {Dim::width, Dim::whole, Dim::whole}, gate},
          {"input_gate.bias", {r.heads, bw}, {Dim::width, Dim::whole}, Init::zeros(), ParameterKind::bias},
          {"recurrent_gate.weight", {r.heads, bw, bw}, {Dim::width, Dim::whole, Dim::whole}, gate},
          {"recurrent_gate.bias", {r.heads, bw}, {Dim::width, Dim::whole}, Init::zeros(), ParameterKind::bias},
          {"p", {r.width}, {Dim::width}, {.kind = Init::Kind::rg_lru, .a = 0.9, .b = 0.999}, ParameterKind::recurrence},
          {"linear_out.weight", {r.width, dims.hidden}, {Dim::width, Dim::whole}, Init::normal(dims.output_std)},
          {"linear_out.bias", {dims.hidden}, {Dim::whole}, Init::zeros(), ParameterKind::bias}};
}

ValueId linear(const BuildContext& context, ValueId x, const std::string& name) {
  return add_bias(context, project(context, x, name + ".weight"), name + ".bias");
}

// Pre-activation of a block-diagonal gate: x[batch, sequence, width] -> the same shape.
ValueId gate(const BuildContext& context, ValueId x, const std::string& name) {
  ops::Builder& b = context.builder;
  const Recurrent& r = context.config.as<Recurrent>();
  const ir::Shape by_block = {context.dims.batch, context.dims.sequence, r.heads, r.block_width()};
  const ValueId product = project(context, b.reshape(x, by_block), name + ".weight", [&](ValueId rows, ValueId matrix) {
    const ValueId by_head = b.dot(rows, b.convert(matrix, context.dims.compute),
                                  {.lhs_contract = {3}, .rhs_contract = {1}, .lhs_batch = {2}, .rhs_batch = {0}});
    return b.transpose(by_head, {1, 2, 0, 3});  // from [heads, batch, sequence, bw]
  });
  const ValueId ordered = b.reshape(product, b.shape(x));
  const ValueId bias = b.reshape(context.weight(name + ".bias"), {r.width});
  return b.add(ordered, b.broadcast(bias, b.shape(x), {2}));
}

// What reaches the tokens of each run [b, K, l, w] from the runs before it, in f32, given h of the runs by themselves.
ValueId carried(const BuildContext& context, ValueId h, ValueId recurrent_gate) {
  ops::Builder& b = context.builder;
  ops::Scope scope(b, "carry");
  const ValueId log_decay = ops::rg_lru_log_decay(b, recurrent_gate, context.master("p"));
  const ValueId from_start = until_document(context, b.exp(b.cumsum(log_decay, 2)));
  const ValueId whole = at_end(context, from_start);
  const ValueId ended = b.convert(at_end(context, h), ir::DType::f32);
  const ValueId reached = carry_in_time(context, whole, ended, {Dim::width});
  return b.mul(from_start, b.broadcast(reached, b.shape(h), {0, 1, 3}));
}

// Which runs of [b, K, ..] go on with one before them: f32[b, K]. The run stored first is the first in time, in every
// order.
ValueId later_runs(ops::Builder& b, const ir::Shape& shape) {
  return b.pad(b.constant(0.0, {shape[0], 1}), 1, 0, shape[1] - 1, 1.0);
}

// Of the tokens [batch, l, width] after those that the state remembers, as one run.
ValueId recur_next(const BuildContext& context, ValueId x, ValueId input_gate, ValueId recurrent_gate) {
  ops::Builder& b = context.builder;
  const ValueId p = context.master("p");
  const ir::Shape tokens = b.shape(x), shape = {tokens[0], 1, tokens[1], tokens[2]};
  const ValueId run = b.reshape(x, shape), input_run = b.reshape(input_gate, shape);
  const ValueId recurrent_run = b.reshape(recurrent_gate, shape);
  const ValueId first = b.reshape(b.slice(*context.positions, 0, 0, 1), {});
  const ValueId is_later = b.compare(first, b.constant(0.0, {}, ir::DType::i32), "gt");
  const ValueId continues = b.broadcast(b.convert(is_later, ir::DType::f32), {shape[0], 1}, {});
  const ValueId alone = b.convert(b.one("rg_lru", {run, input_run, recurrent_run, p, continues}), ir::DType::f32);
  const ValueId log_decay = ops::rg_lru_log_decay(b, recurrent_run, p);
  const ValueId from_start = b.exp(b.cumsum(log_decay, 2));
  const ValueId before = b.broadcast(context.decoding->state.at("rg_lru"), shape, {0, 3});
  const ValueId after = b.add(alone, b.mul(from_start, before));
  context.decoding->next["rg_lru"] = b.reshape(at_end(context, after), {shape[0], shape[3]});
  return b.reshape(b.convert(after, context.dims.compute), tokens);
}

// The recurrence over all tokens: x, gates [batch, sequence, width] -> the same shape.
ValueId recurrence(const BuildContext& context, ValueId x, ValueId input_gate, ValueId recurrent_gate) {
  ops::Builder& b = context.builder;
  if (context.decoding != nullptr) return recur_next(context, x, input_gate, recurrent_gate);
  const ValueId p = context.master("p");
  const std::optional<ValueId> places = document_positions(context);
  if (!is_chunked(context)) {
    std::vector<ValueId> operands = {x, input_gate, recurrent_gate, p};
    if (places) operands.push_back(*places);
    return b.one("rg_lru", operands);
  }
  const ir::Shape shape = chunked_shape(context, {context.config.as<Recurrent>().width});
  const ValueId runs = b.reshape(x, shape), input_runs = b.reshape(input_gate, shape);
  const ValueId recurrent_runs = b.reshape(recurrent_gate, shape);
  const ValueId starts = places ? *places : later_runs(b, shape);
  const ValueId alone = b.one("rg_lru", {runs, input_runs, recurrent_runs, p, starts});
  const ValueId reached = carried(context, alone, recurrent_runs);
  const ValueId h = b.add(b.convert(alone, ir::DType::f32), reached);
  return b.reshape(b.convert(h, context.dims.compute), b.shape(x));
}

ValueId build(const BuildContext& context, ValueId input) {
  ops::Builder& b = context.builder;
  const ValueId entered = context.enter(input);
  ValueId y;
  {
    ops::Scope scope(b, "gate");
    y = gelu_tanh(b, linear(context, entered, "linear_y"));
  }
  ValueId h;
  {
    ops::Scope scope(b, "conv");
    const ValueId x = linear(context, entered, "linear_x");
    h = add_bias(context, convolve(context, {{x, "conv.weight"}})[0], "conv.bias");
  }
  {
    ops::Scope scope(b, "rg_lru");
    const ValueId input_gate = gate(context, h, "input_gate"), recurrent_gate = gate(context, h, "recurrent_gate");
    h = recurrence(context, h, input_gate, recurrent_gate);
  }
  ops::Scope scope(b, "out");
  // The bias joins after leave(), where partial sums end: it must count once.
  const ValueId projected = project(context, b.mul(h, y), "linear_out.weight");
  return add_bias(context, context.leave(projected), "linear_out.bias");
}

}  // namespace

BlockDef recurrent_block() {
  return {.letter = 'R',
          .name = "recurrent",
          .title = "recurrent",
          .defaults = Config::of(Recurrent{}),
          .keys = keys(),
          .check = check,
          .traits = traits,
          .parameters = parameters,
          .build = build,
          .state = state,
          .advice = sequence_advice()};
}

}  // namespace megacpp::blocks
