// SPDX-License-Identifier: Apache-2.0
#include "megacpp/blocks/recurrent.h"

#include <cmath>
#include <numbers>

#include "megacpp/blocks/block.h"

namespace megacpp::blocks {
namespace {

std::vector<Parameter> parameters(const Dims& dims, const Configs& configs) {
  const Recurrent& r = configs.recurrent;
  const int64_t bw = r.block_width();
  const Init gate = Init::normal(std::sqrt(0.01 / static_cast<double>(bw)));
  const Init conv = Init::normal(std::sqrt(0.01 / static_cast<double>(r.conv_width)));
  return {{"linear_x.weight", {dims.hidden, r.width}, {Dim::whole, Dim::width}, Init::normal(dims.init_std)},
          {"linear_x.bias", {r.width}, {Dim::width}, Init::zeros(), false},
          {"linear_y.weight", {dims.hidden, r.width}, {Dim::whole, Dim::width}, Init::normal(dims.init_std)},
          {"linear_y.bias", {r.width}, {Dim::width}, Init::zeros(), false},
          {"conv.weight", {r.width, r.conv_width}, {Dim::width, Dim::whole}, conv},
          {"conv.bias", {r.width}, {Dim::width}, Init::zeros(), false},
          {"input_gate.weight", {r.heads, bw, bw}, {Dim::width, Dim::whole, Dim::whole}, gate},
          {"input_gate.bias", {r.heads, bw}, {Dim::width, Dim::whole}, Init::zeros(), false},
          {"recurrent_gate.weight", {r.heads, bw, bw}, {Dim::width, Dim::whole, Dim::whole}, gate},
          {"recurrent_gate.bias", {r.heads, bw}, {Dim::width, Dim::whole}, Init::zeros(), false},
          {"p", {r.width}, {Dim::width}, {.kind = Init::Kind::rg_lru, .a = 0.9, .b = 0.999}, false},
          {"linear_out.weight", {r.width, dims.hidden}, {Dim::width, Dim::whole}, Init::normal(dims.output_std)},
          {"linear_out.bias", {dims.hidden}, {Dim::whole}, Init::zeros(), false}};
}

ValueId add_bias(const BuildContext& context, ValueId x, const std::string& name) {
  ops::Builder& b = context.builder;
  return b.add(x, b.broadcast(context.weight(name), b.shape(x), {b.type(x).rank() - 1}));
}

ValueId linear(const BuildContext& context, ValueId x, const std::string& name) {
  return add_bias(context, project(context, x, name + ".weight"), name + ".bias");
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
ValueId gelu_tanh(ops::Builder& b, ValueId x) {
  const ValueId cubic = b.mul(x, b.offset(b.scale(b.square(x), 0.044715), 1.0));
  const ValueId t = b.tanh(b.scale(cubic, std::sqrt(2.0 / std::numbers::pi)));
  const ValueId half_x = b.scale(x, 0.5);
  const ValueId one_plus_t = b.offset(t, 1.0);
  return b.mul(half_x, one_plus_t);
}

// Pre-activation of a block-diagonal gate: x[batch, sequence, width] -> the same shape.
ValueId gate(const BuildContext& context, ValueId x, const std::string& name) {
  ops::Builder& b = context.builder;
  const Recurrent& r = context.configs.recurrent;
  const ir::Shape by_block = {context.dims.batch, context.dims.sequence, r.heads, r.block_width()};
  const ValueId inputs = b.reshape(x, by_block);
  const ValueId weight = context.weight(name + ".weight");
  const ValueId product =
      b.dot(inputs, weight, {.lhs_contract = {3}, .rhs_contract = {1}, .lhs_batch = {2}, .rhs_batch = {0}});
  const ValueId ordered =
      b.reshape(b.transpose(product, {1, 2, 0, 3}), b.shape(x));  // from [heads, batch, sequence, bw]
  const ValueId bias = b.reshape(context.weight(name + ".bias"), {r.width});
  return b.add(ordered, b.broadcast(bias, b.shape(x), {2}));
}

ValueId build(const BuildContext& context, ValueId input) {
  ops::Builder& b = context.builder;
  ValueId y;
  {
    ops::Scope scope(b, "gate");
    y = gelu_tanh(b, linear(context, input, "linear_y"));
  }
  ValueId h;
  {
    ops::Scope scope(b, "conv");
    const ValueId x = linear(context, input, "linear_x");
    h = b.one("causal_conv", {x, context.weight("conv.weight")}, {{"reverse", int64_t{0}}});
    h = add_bias(context, h, "conv.bias");
  }
  {
    ops::Scope scope(b, "rg_lru");
    const ValueId input_gate = gate(context, h, "input_gate"), recurrent_gate = gate(context, h, "recurrent_gate");
    h = b.one("rg_lru", {h, input_gate, recurrent_gate, context.master("p")});
  }
  ops::Scope scope(b, "out");
  return linear(context, b.mul(h, y), "linear_out");
}

}  // namespace

BlockDef recurrent_block() { return {.letter = 'R', .name = "recurrent", .parameters = parameters, .build = build}; }

}  // namespace megacpp::blocks
