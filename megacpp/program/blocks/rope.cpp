// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "megacpp/core/base/error.h"

namespace megacpp::blocks {
namespace {

void refuse(const ConfigCheck& check, std::string_view key, const std::string& got, const std::string& wanted,
            const std::string& next) {
  base::raise(base::Code::E1003, {.where = check.at(key), .got = got, .wanted = wanted, .next = next});
}

// Settings that only some scalings read, each with whether it is given.
void check_unread(const ConfigCheck& check, const Attention& a) {
  const Attention defaults;
  const bool has_turns = a.rope_scaling == RopeScaling::llama3 || a.rope_scaling == RopeScaling::yarn;
  const bool is_yarn = a.rope_scaling == RopeScaling::yarn;
  const auto require_unset = [&](bool is_given, const char* key, const char* readers) {
    if (is_given)
      refuse(check, key, fmt::format("given with rope_scaling {}", base::text_of(a.rope_scaling)),
             fmt::format("rope_scaling {}, which alone reads it", readers),
             fmt::format("remove {}, or set {}", check.path(key), check.path("rope_scaling")));
  };
  if (a.rope_scaling == RopeScaling::none) require_unset(a.rope_factor != 1, "rope_factor", "linear, llama3 or yarn");
  if (!has_turns) {
    require_unset(a.rope_original_length != 0, "rope_original_length", "llama3 or yarn");
    require_unset(a.rope_slow_turns != defaults.rope_slow_turns, "rope_slow_turns", "llama3 or yarn");
    require_unset(a.rope_fast_turns != 0, "rope_fast_turns", "llama3 or yarn");
  }
  if (!is_yarn) {
    require_unset(!a.rope_whole_channels, "rope_whole_channels", "yarn");
    require_unset(a.rope_amplitude != 0, "rope_amplitude", "yarn");
  }
}

double fast_turns(const Attention& a) {
  return a.rope_fast_turns > 0 ? a.rope_fast_turns : default_fast_turns(a.rope_scaling);
}

double amplitude(const Attention& a) {
  if (a.rope_scaling != RopeScaling::yarn) return 1;
  return a.rope_amplitude > 0 ? a.rope_amplitude : default_amplitude(a.rope_factor);
}

// Of the tokens that the mixers of a chip hold: angles of others would be computed in vain. f32 of `shape`
ValueId own_positions(const BuildContext& context, const ir::Shape& shape) {
  ops::Builder& b = context.builder;
  const ValueId own = context.reshard(*context.positions, {Dim::whole}, {Dim::sequence});
  return b.broadcast(b.convert(own, ir::DType::f32), shape, {0});
}

ValueId clamped_to_one(ops::Builder& b, ValueId x) {
  const ValueId none = b.constant(0.0), all = b.constant(1.0);
  return b.min(b.max(x, none), all);
}

// The pair, as a real number, that turns so often over the original context.
double pair_that_turns(const Attention& a, double turns) {
  const double length = static_cast<double>(a.rope_original_length);
  return static_cast<double>(a.turned()) * std::log(length / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(a.rope_theta));
}

// What of each pair's frequency is kept, from 0 to 1; the rest is divided by the factor.
ValueId kept(ops::Builder& b, const Attention& a, ValueId index, ValueId frequency) {
  if (a.rope_scaling == RopeScaling::llama3) {
    const double turns = static_cast<double>(a.rope_original_length) / (2 * std::numbers::pi);  // at frequency 1
    const double width = fast_turns(a) - a.rope_slow_turns;
    return clamped_to_one(b, b.offset(b.scale(frequency, turns / width), -a.rope_slow_turns / width));
  }
  double first = pair_that_turns(a, fast_turns(a)), last = pair_that_turns(a, a.rope_slow_turns);
  if (a.rope_whole_channels) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(a.turned() - 1));
  constexpr double kNarrowest = 0.001;  // a step, without a division by zero
  const double width = last == first ? kNarrowest : last - first;
  return clamped_to_one(b, b.offset(b.scale(index, -1 / width), 1 + first / width));
}

ValueId stretched(ops::Builder& b, const Attention& a, ValueId index, ValueId frequency) {
  const ValueId slow = b.scale(frequency, 1 / a.rope_factor);
  if (a.rope_scaling == RopeScaling::linear) return slow;
  const ValueId part = kept(b, a, index, frequency);
  return b.add(slow, b.mul(part, b.sub(frequency, slow)));
}

}  // namespace

double default_amplitude(double factor) { return 0.1 * std::log(factor) + 1; }

void check_rope(const ConfigCheck& check, const Attention& a) {
  check_unread(check, a);
  if (!a.rope) {
    if (a.rotary_dim != 0 || a.rope_scaling != RopeScaling::none)
      refuse(check, a.rotary_dim != 0 ? "rotary_dim" : "rope_scaling", "given without rope", "rope, which reads it",
             fmt::format("set {}: true", check.path("rope")));
    return;
  }
  const bool turns_all = a.rotary_dim == 0;
  MEGACPP_REQUIRE(
      2 * a.turned_pairs() <= a.head_dim, E1005,
      {.where = check.at(turns_all ? "head_dim" : "rotary_dim"),
       .got = turns_all ? fmt::format("head_dim {} with rope", a.head_dim)
                        : fmt::format("rotary_dim {} of head_dim {}", a.rotary_dim, a.head_dim),
       .wanted = turns_all ? "an even head_dim: rope turns pairs of channels" : "pairs of channels that a head has",
       .next = turns_all
                   ? fmt::format("set {}: {}, or {}: false", check.path("head_dim"), a.head_dim + 1, check.path("rope"))
                   : fmt::format("set {}: {}", check.path("rotary_dim"), a.head_dim / 2 * 2)});
  if (a.rope_scaling != RopeScaling::llama3 && a.rope_scaling != RopeScaling::yarn) return;
  if (a.rope_original_length == 0)
    refuse(check, "rope_original_length", fmt::format("none with rope_scaling {}", base::text_of(a.rope_scaling)),
           "the tokens that the model was first trained with",
           fmt::format("set {}: 8192", check.path("rope_original_length")));
  if (a.rope_slow_turns >= fast_turns(a))
    refuse(check, "rope_slow_turns", fmt::format("{} and fast turns {}", a.rope_slow_turns, fast_turns(a)),
           "fewer slow turns than fast ones", fmt::format("set {}: 1", check.path("rope_slow_turns")));
}

std::map<std::string, ValueId> rope_tables(const BuildContext& context) {
  const Attention& a = context.config.as<Attention>();
  if (!a.rope) return {};
  ops::Builder& b = context.builder;
  const ir::Shape shape = {context.dims.sequence, a.turned_pairs()};
  const ValueId position = context.positions ? own_positions(context, shape) : b.iota(shape, 0, ir::DType::f32);
  const ValueId index = b.iota(shape, 1, ir::DType::f32);
  ValueId frequency = b.exp(b.scale(index, -2 * std::log(a.rope_theta) / static_cast<double>(a.turned())));
  if (a.rope_scaling != RopeScaling::none) frequency = stretched(b, a, index, frequency);
  const ValueId angle = b.mul(position, frequency);
  ValueId cos = b.unary("cos", angle), sin = b.unary("sin", angle);
  if (const double grown = amplitude(a); grown != 1) cos = b.scale(cos, grown), sin = b.scale(sin, grown);
  return {{"rope_cos", cos}, {"rope_sin", sin}};
}

}  // namespace megacpp::blocks
