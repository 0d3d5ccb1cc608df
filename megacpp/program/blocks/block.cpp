// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/block.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/lora.h"

namespace megacpp::blocks {

const BlockDef* find_block(char letter) {
  const auto& table = all_blocks();
  const auto at =
      std::find_if(table.begin(), table.end(), [letter](const BlockDef& def) { return def.letter == letter; });
  return at == table.end() ? nullptr : &*at;
}

const BlockDef& block_def(char letter) {
  const BlockDef* def = find_block(letter);
  MEGACPP_CHECK(def != nullptr) << "no block family '" << letter << "'";
  return *def;
}

std::map<char, Config> default_configs() {
  std::map<char, Config> configs;
  for (const BlockDef& def : all_blocks()) configs.emplace(def.letter, def.defaults);
  return configs;
}

ValueId rms_norm(ops::Builder& builder, const Dims& dims, ValueId x, ValueId gain) {
  ir::Attrs attrs = {{"eps", dims.norm_eps}};
  if (dims.norm_plus_one) attrs.set("offset", 1.0);
  return builder.node("rms_norm", {x, builder.convert(gain, dims.compute)}, std::move(attrs))[0];
}

ValueId BuildContext::norm(ValueId x, const std::string& gain) const {
  return rms_norm(builder, dims, x, master(gain));
}

ValueId BuildContext::reshard(ValueId x, const std::vector<Dim>& from, const std::vector<Dim>& to) const {
  if (parallel.is_one_chip()) return x;
  const ir::Sharding before = parallel.sharding(from), after = parallel.sharding(to);
  return builder.one("reshard", {x},
                     {{"from", ir::to_string(before, parallel.mesh)}, {"to", ir::to_string(after, parallel.mesh)}});
}

ValueId BuildContext::enter(ValueId x) const {
  return reshard(x, {Dim::batch, Dim::stream, Dim::whole}, {Dim::batch, Dim::sequence, Dim::whole});
}

ValueId BuildContext::leave(ValueId y) const {
  return reshard(y, {Dim::batch, Dim::sequence, Dim::whole}, {Dim::batch, Dim::stream, Dim::whole});
}

ValueId project(const BuildContext& context, ValueId x, const std::string& weight, const Product& product) {
  const ValueId base = product(x, context.master(weight));
  const auto a = context.weights.find(weight + std::string(kLoraA));
  if (a == context.weights.end()) return base;
  ops::Builder& b = context.builder;
  const ValueId narrow = b.convert(product(x, a->second), b.type(x).dtype);  // [.., rank]
  const ValueId scaled = b.scale(narrow, context.adapter_scale);
  return b.add(base, product(scaled, context.master(weight + std::string(kLoraB))));
}

ValueId project(const BuildContext& context, ValueId x, const std::string& weight) {
  return project(context, x, weight, [&context](ValueId rows, ValueId matrix) {
    return context.builder.matmul(rows, context.builder.convert(matrix, context.dims.compute));
  });
}

ValueId add_bias(const BuildContext& context, ValueId x, const std::string& bias) {
  ops::Builder& b = context.builder;
  return b.add(x, b.broadcast(context.weight(bias), b.shape(x), {b.type(x).rank() - 1}));
}

}  // namespace megacpp::blocks
