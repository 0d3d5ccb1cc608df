// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/mamba.h"

#include <fmt/format.h>

#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/sequence_chunks.h"

namespace megacpp::blocks {
namespace {

std::vector<ConfigKey> keys() {
  using namespace schema;  // ranges and limits
  return {
      setting<&Mamba::heads>("heads", between(1, kMaxParts), "Heads; heads x head_dim is the inner width."),
      setting<&Mamba::head_dim>("head_dim", between(1, kMaxParts), "Width of one head."),
      setting<&Mamba::state>("state", between(1, kMaxParts), "State size per head channel."),
      setting<&Mamba::groups>("groups", between(1, kMaxParts), "Groups that share B and C; divides the heads."),
      setting<&Mamba::conv_width>("conv_width", between(1, kMaxParts), "Taps of the causal depthwise convolution."),
      setting<&Mamba::chunk>("chunk", between(1, kMaxParts),
                             "Tokens per chunk of the scan; changes speed and memory, not the result."),
      setting<&Mamba::dt_min>("dt_min", above(0), "Smallest initial time step."),
      setting<&Mamba::dt_max>("dt_max", above(0), "Largest initial time step."),
      setting<&Mamba::dt_floor>("dt_floor", above(0), "Initial time steps below this are raised to it."),
      setting<&Mamba::dt_limit_low>("dt_limit_low", at_least(0), "Lower clamp of the time step in every forward pass."),
      setting<&Mamba::dt_limit_high>("dt_limit_high", above_or_infinite(0),
                                     "Upper clamp of the time step in every forward pass; .inf = none."),
      setting<&Mamba::norm_per_group>("norm_per_group", any(),
                                      "Gated norm over each group; false = over the whole inner width."),
      setting<&Mamba::conv_bias>("conv_bias", any(), "Bias on the convolution."),
      setting<&Mamba::document_mask>("document_mask", any(),
                                     "Start state and convolution anew at each packed document."),
  };
}

void check(const ConfigCheck& check) {
  const Mamba& m = check.config.as<Mamba>();
  require_divides(check, {check.path("heads"), m.heads, check.path("groups"), m.groups});
  MEGACPP_REQUIRE(m.dt_min <= m.dt_max, E1003,
                  {.where = check.at("dt_min"),
                   .got = fmt::format("dt_min {}, dt_max {}", m.dt_min, m.dt_max),
                   .wanted = "dt_min at most dt_max",
                   .next = fmt::format("swap {} and {}", check.path("dt_min"), check.path("dt_max"))});
  MEGACPP_REQUIRE(m.dt_limit_low < m.dt_limit_high, E1003,
                  {.where = check.at("dt_limit_low"),
                   .got = fmt::format("dt_limit_low {}, dt_limit_high {}", m.dt_limit_low, m.dt_limit_high),
                   .wanted = "dt_limit_low below dt_limit_high",
                   .next = fmt::format("set {}: 0 and {}: .inf for no clamp", check.path("dt_limit_low"),
                                       check.path("dt_limit_high"))});
}

Traits traits(const Config& config) {
  const Mamba& m = config.as<Mamba>();
  Traits traits{.widths = {{"heads", m.heads, m.head_dim}},
                .splits = {{.key = "heads", .count = m.heads, .dim = Dim::inner},
                           {.key = "groups", .count = m.groups, .dim = Dim::groups, .how = Split::How::shared}},
                .history = m.conv_width - 1,
                .is_recurrent = true,
                .reads_document_positions = m.document_mask};
  if (m.document_mask) traits.features = {"document_mask"};
  return traits;
}

// The tokens the convolutions look back to, and the state of the scan.
std::vector<StatePort> state(const Dims& dims, const Config& config) {
  const Mamba& m = config.as<Mamba>();
  const auto window = [&](int64_t channels) {
    return ir::TensorType{dims.compute, {dims.batch, m.conv_width - 1, channels}};
  };
  const std::vector<Dim> by_inner = {Dim::batch, Dim::whole, Dim::inner};
  const std::vector<Dim> by_groups = {Dim::batch, Dim::whole, Dim::groups};
  return {{"conv.x", window(m.inner()), by_inner},
          {"conv.B", window(m.groups * m.state), by_groups},
          {"conv.C", window(m.groups * m.state), by_groups},
          {"ssm",
           {ir::DType::f32, {dims.batch, m.heads, m.head_dim, m.state}},
           {Dim::batch, Dim::inner, Dim::whole, Dim::whole}}};
}

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const Mamba& m = config.as<Mamba>();
  const Init in = Init::normal(dims.init_std);
  const Init conv = Init::normal(1.0 / std::sqrt(3.0 * static_cast<double>(m.conv_width)));
  const Init dt{.kind = Init::Kind::dt_bias, .a = m.dt_min, .b = m.dt_max, .c = m.dt_floor};
  std::vector<Parameter> list = {
      {"in_proj.z", {dims.hidden, m.inner()}, {Dim::whole, Dim::inner}, in},
      {"in_proj.x", {dims.hidden, m.inner()}, {Dim::whole, Dim::inner}, in},
      {"in_proj.B", {dims.hidden, m.groups * m.state}, {Dim::whole, Dim::groups}, in},
      {"in_proj.C", {dims.hidden, m.groups * m.state}, {Dim::whole, Dim::groups}, in},
      {"in_proj.dt", {dims.hidden, m.heads}, {Dim::whole, Dim::inner}, in},
      {"conv.x.weight", {m.inner(), m.conv_width}, {Dim::inner, Dim::whole}, conv, ParameterKind::convolution},
      {"conv.B.weight",
       {m.groups * m.state, m.conv_width},
       {Dim::groups, Dim::whole},
       conv,
       ParameterKind::convolution},
      {"conv.C.weight",
       {m.groups * m.state, m.conv_width},
       {Dim::groups, Dim::whole},
       conv,
       ParameterKind::convolution},
      {"dt_bias", {m.heads}, {Dim::inner}, dt, ParameterKind::bias},
      {"A_log", {m.heads}, {Dim::inner}, {.kind = Init::Kind::log_uniform_int}, ParameterKind::recurrence},
      {"D", {m.heads}, {Dim::inner}, Init::ones(), ParameterKind::recurrence},
      {"gate_norm.weight", {m.inner()}, {Dim::inner}, Init::ones(), ParameterKind::norm},
      {"out_proj", {m.inner(), dims.hidden}, {Dim::inner, Dim::whole}, Init::normal(dims.output_std)}};
  if (m.conv_bias) {
    list.push_back({"conv.x.bias", {m.inner()}, {Dim::inner}, Init::zeros(), ParameterKind::bias});
    list.push_back({"conv.B.bias", {m.groups * m.state}, {Dim::groups}, Init::zeros(), ParameterKind::bias});
    list.push_back({"conv.C.bias", {m.groups * m.state}, {Dim::groups}, Init::zeros(), ParameterKind::bias});
  }
  return list;
}

// Conv, bias and SiLU over the channels of each of x, B and C.
std::vector<ValueId> convolved(const BuildContext& context, const std::vector<ValueId>& channels) {
  ops::Builder& b = context.builder;
  ops::Scope scope(b, "conv");
  const std::vector<std::string> names = {"conv.x", "conv.B", "conv.C"};
  std::vector<Convolution> convolutions;
  for (size_t i = 0; i < names.size(); ++i) convolutions.push_back({channels[i], names[i] + ".weight"});
  std::vector<ValueId> results = convolve(context, convolutions);
  for (size_t i = 0; i < names.size(); ++i) {
    ValueId& y = results[i];
    if (context.config.as<Mamba>().conv_bias)
      y = b.add(y, b.broadcast(context.weight(names[i] + ".bias"), b.shape(y), {2}));
    y = b.silu(y);
  }
  return results;
}

// Time steps before bias, straight to f32: a narrow product would be widened or not depending on who else reads it.
ValueId raw_time_steps(const BuildContext& context, ValueId x) {
  using Dims = std::vector<int64_t>;
  ops::Builder& b = context.builder;
  return project(context, x, "in_proj.dt", [&](ValueId rows, ValueId matrix) {
    return b.one("dot", {rows, b.convert(matrix, context.dims.compute)},
                 {{"lhs_contract", Dims{2}},
                  {"rhs_contract", Dims{0}},
                  {"lhs_batch", Dims{}},
                  {"rhs_batch", Dims{}},
                  {"dtype", std::string(ir::dtype_name(ir::DType::f32))}});
  });
}

// Time steps after bias, softplus and limits: f32[batch, sequence, heads]
ValueId time_steps(const BuildContext& context, ValueId raw) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  ValueId dt = b.softplus(b.add(raw, b.broadcast(context.master("dt_bias"), b.shape(raw), {2})));
  if (m.dt_limit_low > 0) dt = b.max(dt, b.constant(m.dt_limit_low));
  if (std::isfinite(m.dt_limit_high)) dt = b.min(dt, b.constant(m.dt_limit_high));
  return dt;
}

// What the scan reads; with several runs all but A are [b, K, l, ..].
struct Scan {
  ValueId x;     // [b, s, h, p]
  ValueId dt;    // [b, s, h]
  ValueId A;     // [h]
  ValueId B, C;  // [b, s, g, n]
};

// v [b, K, l, h, p] times factor [b, K, l, h]
ValueId scale_heads(ops::Builder& b, ValueId v, ValueId factor) {
  return b.mul(v, b.broadcast(factor, b.shape(v), {0, 1, 2, 3}));
}

// What each run leaves behind, from nothing: [b, K, h, p, n]
ValueId ended_states(const BuildContext& context, const Scan& scan, ValueId log_decay) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  const ir::Shape runs = b.shape(scan.x);
  // A position's own decay comes before what it adds, so only the later ones count. Summed from the end: a difference
  // of sums from the start would cancel.
  const int64_t length = b.type(log_decay).dim(2);
  const ValueId later = b.slice(b.pad(log_decay, 2, 0, 1), 2, 1, length);
  const ValueId to_end = since_document(context, b.exp(b.cumsum(later, 2, true)));
  const ValueId x = b.convert(scan.x, ir::DType::f32);
  const ValueId added = scale_heads(b, x, b.mul(scan.dt, to_end));
  const ValueId by_group = b.reshape(added, {runs[0], runs[1], runs[2], m.groups, m.heads / m.groups, m.head_dim});
  const ValueId states =
      b.dot(by_group, b.convert(scan.B, ir::DType::f32),
            {.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 3}});
  return b.reshape(states, {runs[0], runs[1], m.heads, m.head_dim, m.state});
}

// What the scan reads from the states [b, K, h, p, n] that reach each run, had they not decayed: f32[b, K, l, h, p]
ValueId read_states(const BuildContext& context, const Scan& scan, ValueId states) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  const ir::Shape runs = b.shape(scan.x);
  const ValueId reached = b.reshape(states, {runs[0], runs[1], m.groups, m.heads / m.groups, m.head_dim, m.state});
  const ValueId read = b.dot(  // [b, K, g, l, h / g, p]
      b.convert(scan.C, ir::DType::f32), reached,
      {.lhs_contract = {4}, .rhs_contract = {5}, .lhs_batch = {0, 1, 3}, .rhs_batch = {0, 1, 2}});
  return b.reshape(b.transpose(read, {0, 1, 3, 2, 4, 5}), {runs[0], runs[1], runs[2], m.heads, m.head_dim});
}

// What the scan reads from the states that reach each run from those before it, in f32: [b, K, l, h, p]
ValueId carried(const BuildContext& context, const Scan& scan) {
  ops::Builder& b = context.builder;
  ops::Scope scope(b, "carry");
  const ValueId log_decay = b.mul(scan.dt, b.broadcast(scan.A, b.shape(scan.dt), {3}));
  const ValueId from_start = until_document(context, b.exp(b.cumsum(log_decay, 2)));
  const ValueId ended = ended_states(context, scan, log_decay);
  const ValueId whole = at_end(context, from_start);
  const ValueId by_head = carry_in_time(context, whole, ended, {Dim::inner, Dim::whole, Dim::whole});
  return scale_heads(b, read_states(context, scan, by_head), from_start);
}

// v [b, 1, g, n] for every head: f32[b, h, n]
ValueId for_heads(const BuildContext& context, ValueId v) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  const int64_t batch = context.dims.batch;
  const ValueId groups = b.reshape(b.convert(v, ir::DType::f32), {batch, m.groups, m.state});
  const ValueId heads = b.broadcast(groups, {batch, m.groups, m.heads / m.groups, m.state}, {0, 1, 3});
  return b.reshape(heads, {batch, m.heads, m.state});
}

// The scan of one token: the state [b, h, p, n] decays, takes the token up and is read: [b, 1, h, p]
ValueId scan_token(const BuildContext& context, const Scan& scan) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  const ValueId before = context.decoding->state.at("ssm");
  const ir::Shape shape = b.shape(before), rows = {shape[0], shape[1], shape[2]};
  const ValueId dt = b.reshape(scan.dt, {shape[0], m.heads});
  const ValueId decay = b.exp(b.mul(dt, b.broadcast(scan.A, b.shape(dt), {1})));
  const ValueId x = b.reshape(b.convert(scan.x, ir::DType::f32), rows);
  const ValueId step = b.mul(x, b.broadcast(dt, rows, {0, 1}));
  const ValueId written = b.broadcast(for_heads(context, scan.B), shape, {0, 1, 3});
  const ValueId added = b.mul(b.broadcast(step, shape, {0, 1, 2}), written);
  const ValueId after = b.add(b.mul(before, b.broadcast(decay, shape, {0, 1})), added);
  context.decoding->next["ssm"] = after;
  const ValueId read = b.broadcast(for_heads(context, scan.C), shape, {0, 1, 3});
  const ValueId y = b.reduce_sum(b.mul(after, read), {3});
  return b.convert(b.reshape(y, {shape[0], 1, shape[1], shape[2]}), context.dims.compute);
}

// The scan of several tokens as one run that begins with the state: [b, l, h, p]
ValueId scan_tokens(const BuildContext& context, const Scan& tokens) {
  ops::Builder& b = context.builder;
  const auto as_run = [&b](ValueId v) {
    ir::Shape shape = b.shape(v);
    shape.insert(shape.begin() + 1, 1);
    return b.reshape(v, shape);
  };
  const Scan scan{
      .x = as_run(tokens.x), .dt = as_run(tokens.dt), .A = tokens.A, .B = as_run(tokens.B), .C = as_run(tokens.C)};
  const ValueId alone =
      b.one("ssd", {scan.x, scan.dt, scan.A, scan.B, scan.C}, {{"chunk", context.config.as<Mamba>().chunk}});
  const ValueId log_decay = b.mul(scan.dt, b.broadcast(scan.A, b.shape(scan.dt), {3}));
  const ValueId from_start = b.exp(b.cumsum(log_decay, 2));  // [b, 1, l, h]
  const ValueId before = as_run(context.decoding->state.at("ssm"));
  const ValueId reached = scale_heads(b, read_states(context, scan, before), from_start);
  const ValueId kept = b.mul(before, b.broadcast(at_end(context, from_start), b.shape(before), {0, 1, 2}));
  const ValueId after = b.add(kept, ended_states(context, scan, log_decay));
  context.decoding->next["ssm"] = b.reshape(after, b.shape(context.decoding->state.at("ssm")));
  const ValueId y = b.add(b.convert(alone, ir::DType::f32), reached);
  return b.convert(b.reshape(y, b.shape(tokens.x)), context.dims.compute);
}

// What the tokens of a step read, and what they leave: [b, l, h, p]
ValueId scan_next(const BuildContext& context, const Scan& scan) {
  return context.dims.sequence == 1 ? scan_token(context, scan) : scan_tokens(context, scan);
}

// The scan plus its skip connection: [batch, sequence, inner]
ValueId scanned(const BuildContext& context, ValueId x, ValueId dt, ValueId B, ValueId C) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  ops::Scope scope(b, "ssd");
  const ir::Shape state_shape = chunked_shape(context, {m.groups, m.state});
  Scan scan;
  scan.x = b.reshape(x, chunked_shape(context, {m.heads, m.head_dim}));
  scan.dt = b.reshape(dt, chunked_shape(context, {m.heads}));
  scan.B = b.reshape(B, state_shape);
  scan.C = b.reshape(C, state_shape);
  scan.A = b.neg(b.exp(context.master("A_log")));
  std::vector<ValueId> operands = {scan.x, scan.dt, scan.A, scan.B, scan.C};
  if (const auto places = document_positions(context)) operands.push_back(*places);
  ValueId y = context.decoding != nullptr ? scan_next(context, scan) : b.one("ssd", operands, {{"chunk", m.chunk}});
  if (is_chunked(context)) {
    const ValueId reached = carried(context, scan);
    y = b.convert(b.add(b.convert(y, ir::DType::f32), reached), context.dims.compute);
  }
  const ValueId skip = b.mul(scan.x, b.broadcast(context.weight("D"), b.shape(scan.x), {b.type(scan.x).rank() - 2}));
  return b.reshape(b.add(y, skip), b.shape(x));
}

ValueId build(const BuildContext& context, ValueId input) {
  ops::Builder& b = context.builder;
  const Mamba& m = context.config.as<Mamba>();
  ValueId z, x, B, C, raw_dt;
  {
    ops::Scope scope(b, "in");
    const ValueId entered = context.enter(input);
    z = project(context, entered, "in_proj.z");
    x = project(context, entered, "in_proj.x");
    B = project(context, entered, "in_proj.B");
    C = project(context, entered, "in_proj.C");
    raw_dt = raw_time_steps(context, entered);
  }
  const std::vector<ValueId> mixed = convolved(context, {x, B, C});
  const ValueId dt = time_steps(context, raw_dt);
  const ValueId y = scanned(context, mixed[0], dt, mixed[1], mixed[2]);
  ops::Scope scope(b, "out");
  const ValueId gated = b.mul(y, b.silu(z));
  const ValueId normed =
      b.node("rms_norm", {gated, context.weight("gate_norm.weight")},
             {{"eps", context.dims.norm_eps}, {"group_size", m.norm_per_group ? m.inner() / m.groups : m.inner()}})[0];
  return context.leave(project(context, normed, "out_proj"));
}

}  // namespace

BlockDef mamba_block() {
  return {.letter = 'M',
          .name = "mamba",
          .title = "Mamba-2",
          .defaults = Config::of(Mamba{}),
          .keys = keys(),
          .check = check,
          .traits = traits,
          .parameters = parameters,
          .build = build,
          .state = state,
          .advice = sequence_advice()};
}

}  // namespace megacpp::blocks
