// SPDX-License-Identifier: Apache-2.0
// Random numbers that are a pure function of (seed, site, step, element index).
#include <algorithm>
#include <numbers>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/philox.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

constexpr double kBelowOne = 1 - 0x1p-24;  // the largest f32 below one: uniforms stay inside (0, 1) when stored

Types infer_random(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands == Types{{DType::i32, {}}}, "random", operands, "i32 step[]");
  attrs.text("site");  // must be there
  const std::string& distribution = attrs.text("distribution");
  MEGACPP_REQUIRE(distribution == "uniform" || distribution == "normal", E1301,
                  {.where = "random", .got = distribution, .wanted = "distribution uniform or normal"});
  return {{DType::f32, attrs.list("shape")}};
}

Factors random_factors(const NodeView& view) {
  const std::string names = numbered_names("d", view.results[0].rank());
  return factors_from(view, "* -> " + names, names);
}

void reference_random(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const base::Philox philox(static_cast<uint64_t>(attrs.integer("seed")), attrs.text("site"));
  const uint32_t step = static_cast<uint32_t>(operands[0][0]);
  const bool uniform = attrs.text("distribution") == "uniform";
  for (int64_t i = 0; i < results[0].elements(); ++i) {
    const uint64_t index = static_cast<uint64_t>(i);
    results[0][i] = uniform ? std::min(philox.uniform(index, step), kBelowOne) : philox.normal(index, step);
  }
}

// ---- StableHLO: base::Philox in words of 32 bits ----

struct Counter {
  HloValue c0, c1, c2, c3;
};

HloValue high_word(HloWriter& w, const HloValue& wide) {
  return w.convert(w.binary("shift_right_logical", wide, w.word(32, wide.type)), "ui32");
}

void philox_round(HloWriter& w, Counter& c, uint32_t k0, uint32_t k1) {
  const HloType wide{"ui64", c.c0.type.shape};
  const auto product = [&](const HloValue& word, uint32_t by) {
    const HloValue widened = w.convert(word, "ui64");
    return w.binary("multiply", widened, w.word(by, wide));
  };
  const HloValue p0 = product(c.c0, base::Philox::kMultiplier0), p1 = product(c.c2, base::Philox::kMultiplier1);
  const auto mixed = [&](const HloValue& high, const HloValue& word, uint32_t key) {
    const HloValue both = w.binary("xor", high, word);
    return w.binary("xor", both, w.word(key, word.type));
  };
  c = {mixed(high_word(w, p1), c.c1, k0), w.convert(p1, "ui32"), mixed(high_word(w, p0), c.c3, k1),
       w.convert(p0, "ui32")};
}

Counter philox_words(HloWriter& w, const HloValue& index, const HloValue& step, const base::Philox& philox) {
  const HloValue zero = w.word(0, index.type);
  Counter c{index, zero, w.broadcast(w.convert(step, "ui32"), index.type.shape, {}), zero};
  uint32_t k0 = philox.key0(), k1 = philox.key1();
  for (int round = 0; round < base::Philox::kRounds; ++round) {
    philox_round(w, c, k0, k1);
    k0 += base::Philox::kWeyl0;
    k1 += base::Philox::kWeyl1;
  }
  return c;
}

HloResults write_random(HloWriter& w, const HloArgs& args) {
  const base::Philox philox(static_cast<uint64_t>(args.attrs().integer("seed")), args.attrs().text("site"));
  const int64_t count = args.view.results[0].elements();
  const HloType words{"ui32", {count}}, numbers{"f32", {count}};
  const HloValue element = w.iota(words, 0);
  const Counter c =
      philox_words(w, w.binary("shift_right_logical", element, w.word(2, words)), args.operands[0], philox);
  const HloValue place = w.binary("and", element, w.word(3, words));
  const HloValue parity = w.binary("and", place, w.word(1, words));
  const HloValue is_odd = w.compare(parity, w.word(1, words), "EQ");
  const HloValue is_late = w.compare(place, w.word(2, words), "GE");  // in the second pair of words
  const auto unit = [&](const HloValue& word) {
    const HloValue number = w.convert(word, "f32");
    const HloValue middle = w.binary("add", number, w.constant(0.5, numbers));
    return w.binary("multiply", middle, w.constant(0x1p-32, numbers));
  };
  const HloValue even = w.select(is_late, c.c2, c.c0), odd = w.select(is_late, c.c3, c.c1);
  if (args.attrs().text("distribution") == "uniform") {
    const HloValue drawn = unit(w.select(is_odd, odd, even));
    return {w.reshape(w.binary("minimum", drawn, w.constant(kBelowOne, numbers)), args.result().shape)};
  }
  const HloValue log = w.unary("log", unit(even));
  const HloValue radius = w.unary("sqrt", w.binary("multiply", log, w.constant(-2, numbers)));
  const HloValue turn = unit(odd);
  const HloValue angle = w.binary("multiply", turn, w.constant(2 * std::numbers::pi, numbers));
  const HloValue sine = w.unary("sine", angle);
  const HloValue direction = w.select(is_odd, sine, w.unary("cosine", angle));
  return {w.reshape(w.binary("multiply", radius, direction), args.result().shape)};
}

Sample random_sample(std::string name, ir::Shape shape, std::string distribution) {
  return {.name = std::move(name),
          .operands = {{DType::i32, {}}},
          .attrs = {{"shape", std::move(shape)},
                    {"seed", 7},
                    {"site", "router.noise"},
                    {"distribution", std::move(distribution)}},
          .low = 0,
          .high = 100};
}

}  // namespace

OpDef random_def() {
  return {
      .name = "random",
      .doc = "uniform (0,1) or standard normal numbers, a pure function of seed, site, step and element index",
      .infer = infer_random,
      .factors = random_factors,
      .no_grad = "does not depend on floating-point operands",
      .cost = [](const NodeView& view) { return Cost{10.0 * static_cast<double>(view.results[0].elements())}; },
      .reference = reference_random,
      .stablehlo = write_random,
      .samples =
          [] {
            return std::vector<Sample>{random_sample("uniform", {4, 6}, "uniform"),
                                       random_sample("normal", {3, 5}, "normal"), random_sample("one", {}, "normal")};
          },
  };
}

}  // namespace megacpp::ops
