// SPDX-License-Identifier: Apache-2.0
// U: units of tanh(x W) times logistic(x V), scaled and projected back. No model needs it; it has what a family must
// have: settings with a check, and parts that a layout splits.
#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/block.h"

namespace megacpp::blocks {
namespace {

struct GatedUnit {
  int64_t units = 0;
  int64_t unit_width = 4;

  int64_t width() const { return units * unit_width; }
  bool operator==(const GatedUnit&) const = default;
};

std::vector<ConfigKey> keys() {
  return {setting<&GatedUnit::units>("units", schema::between(1, 4096), "Units that are split whole."),
          setting<&GatedUnit::unit_width>("unit_width", schema::between(1, 4096), "Width of one unit; even.")};
}

void check(const ConfigCheck& check) {
  const int64_t width = check.config.as<GatedUnit>().unit_width;
  MEGACPP_REQUIRE(width % 2 == 0, E1005,
                  {.where = check.at("unit_width"),
                   .got = std::to_string(width),
                   .wanted = "an even width",
                   .next = "set " + check.path("unit_width") + ": " + std::to_string(width + 1)});
}

Traits traits(const Config& config) {
  const GatedUnit& u = config.as<GatedUnit>();
  return {.widths = {{"units", u.units, u.unit_width}},
          .splits = {{.key = "units", .count = u.units, .dim = Dim::inner}},
          .features = {"gated"}};
}

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const int64_t width = config.as<GatedUnit>().width();
  return {{"w_in", {dims.hidden, width}, {Dim::whole, Dim::inner}, Init::normal(dims.init_std)},
          {"w_gate", {dims.hidden, width}, {Dim::whole, Dim::inner}, Init::normal(dims.init_std)},
          {"scale", {width}, {Dim::inner}, Init::ones(), ParameterKind::norm},
          {"w_out", {width, dims.hidden}, {Dim::inner, Dim::whole}, Init::normal(dims.output_std)}};
}

ValueId build(const BuildContext& context, ValueId stream) {
  ops::Builder& b = context.builder;
  const ValueId x = context.enter(stream);
  const ValueId gated = b.mul(b.tanh(project(context, x, "w_in")), b.logistic(project(context, x, "w_gate")));
  const ValueId scaled = b.mul(gated, b.broadcast(context.weight("scale"), b.shape(gated), {2}));
  return context.leave(project(context, scaled, "w_out"));
}

std::vector<StatePort> state(const Dims&, const Config&) { return {}; }

}  // namespace

BlockDef gated_unit_block() {
  return {.letter = 'U',
          .name = "gated_unit",
          .title = "gated units",
          .defaults = Config::of(GatedUnit{}),
          .keys = keys(),
          .check = check,
          .traits = traits,
          .parameters = parameters,
          .build = build,
          .state = state};
}

}  // namespace megacpp::blocks
