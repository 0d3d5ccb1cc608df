// SPDX-License-Identifier: Apache-2.0
#include "megacpp/blocks/mamba.h"

#include <cmath>

#include "megacpp/blocks/block.h"

namespace megacpp::blocks {
namespace {

std::vector<Parameter> parameters(const Dims& dims, const Configs& configs) {
  const Mamba& m = configs.mamba;
  const Init dt{.kind = Init::Kind::dt_bias, .a = m.dt_min, .b = m.dt_max, .c = m.dt_floor};
  const double conv_std = 1.0 / std::sqrt(3.0 * static_cast<double>(m.conv_width));
  std::vector<Parameter> list = {{"in_proj", {dims.hidden, m.projected()}, {Dim::whole, Dim::whole}, Init::normal(dims.init_std)},
                                 {"conv.weight", {m.conv_channels(), m.conv_width}, {Dim::whole, Dim::whole}, Init::normal(conv_std)},
                                 {"dt_bias", {m.heads}, {Dim::inner}, dt, false},
                                 {"A_log", {m.heads}, {Dim::inner}, {.kind = Init::Kind::log_uniform_int}, false},
                                 {"D", {m.heads}, {Dim::inner}, Init::ones(), false},
                                 {"gate_norm.weight", {m.inner()}, {Dim::inner}, Init::ones(), false},
                                 {"out_proj", {m.inner(), dims.hidden}, {Dim::inner, Dim::whole}, Init::normal(dims.output_std)}};
  if (m.conv_bias) list.push_back({"conv.bias", {m.conv_channels()}, {Dim::whole}, Init::zeros(), false});
  return list;
}

// Conv, bias and SiLU over the channels [x, B, C].
ValueId convolved(const BuildContext& context, ValueId channels) {
  ops::Builder& b = context.builder;
  ops::Scope scope(b, "conv");
  ValueId y = b.one("causal_conv", {channels, context.weight("conv.weight")}, {{"reverse", int64_t{0}}});
  if (context.configs.mamba.conv_bias) y = b.add(y, b.broadcast(context.weight("conv.bias"), b.shape(y), {2}));
  return b.silu(y);
}

// Time steps after bias, softplus and limits, in f32: [batch, sequence, heads]
ValueId time_steps(const BuildContext& context, ValueId raw) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.configs.mamba;
  const ValueId wide = b.convert(raw, ir::DType::f32);
  ValueId dt = b.softplus(b.add(wide, b.broadcast(context.master("dt_bias"), b.shape(wide), {2})));
  if (m.dt_limit_low > 0) dt = b.max(dt, b.constant(m.dt_limit_low));
  if (std::isfinite(m.dt_limit_high)) dt = b.min(dt, b.constant(m.dt_limit_high));
  return dt;
}

// The scan plus its skip connection: [batch, sequence, inner]
ValueId scanned(const BuildContext& context, ValueId conv, ValueId dt) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.configs.mamba;
  const auto& [batch, sequence] = std::pair(context.dims.batch, context.dims.sequence);
  const int64_t bc = m.groups * m.state;
  ops::Scope scope(b, "ssd");
  const ValueId x = b.reshape(b.slice(conv, 2, 0, m.inner()), {batch, sequence, m.heads, m.head_dim});
  const ValueId B = b.reshape(b.slice(conv, 2, m.inner(), bc), {batch, sequence, m.groups, m.state});
  const ValueId C = b.reshape(b.slice(conv, 2, m.inner() + bc, bc), {batch, sequence, m.groups, m.state});
  const ValueId A = b.neg(b.exp(context.master("A_log")));
  const ValueId y = b.one("ssd", {x, dt, A, B, C}, {{"chunk", m.chunk}});
  const ValueId skip = b.mul(x, b.broadcast(context.weight("D"), b.shape(x), {2}));
  return b.reshape(b.add(y, skip), {batch, sequence, m.inner()});
}

ValueId build(const BuildContext& context, ValueId input) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.configs.mamba;
  ValueId z, channels, raw_dt;
  {
    ops::Scope scope(b, "in");
    const ValueId projected = project(context, input, "in_proj");
    z = b.slice(projected, 2, 0, m.inner());
    channels = b.slice(projected, 2, m.inner(), m.conv_channels());
    raw_dt = b.slice(projected, 2, m.inner() + m.conv_channels(), m.heads);
  }
  const ValueId conv = convolved(context, channels);
  const ValueId dt = time_steps(context, raw_dt);
  const ValueId y = scanned(context, conv, dt);
  ops::Scope scope(b, "out");
  const ValueId gated = b.mul(y, b.silu(z));
  const ValueId normed =
      b.node("rms_norm", {gated, context.weight("gate_norm.weight")},
             {{"eps", context.dims.norm_eps}, {"group_size", m.norm_per_group ? m.inner() / m.groups : m.inner()}})[0];
  return project(context, normed, "out_proj");
}

}  // namespace

BlockDef mamba_block() { return {.letter = 'M', .name = "mamba", .parameters = parameters, .build = build}; }

}  // namespace megacpp::blocks
