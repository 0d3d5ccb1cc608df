// SPDX-License-Identifier: Apache-2.0
// Random numbers that are a pure function of (seed, site, step, element index).
#include <algorithm>

#include "megacpp/base/error.h"
#include "megacpp/base/philox.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

constexpr size_t kLongestSite = 200;       // kernels build "site#step" in a buffer of fixed size
constexpr double kBelowOne = 1 - 0x1p-24;  // the largest f32 below one: uniforms stay inside (0, 1) when stored

Types infer(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands == Types{{DType::i32, {}}}, "random", operands, "i32 step[]");
  MEGACPP_REQUIRE(attrs.text("site").size() <= kLongestSite, E1301,
                  {.where = "random",
                   .got = "a site name of " + std::to_string(attrs.text("site").size()) + " characters",
                   .wanted = "at most " + std::to_string(kLongestSite)});
  const std::string& distribution = attrs.text("distribution");
  MEGACPP_REQUIRE(distribution == "uniform" || distribution == "normal", E1301,
                  {.where = "random", .got = distribution, .wanted = "distribution uniform or normal"});
  return {{DType::f32, attrs.list("shape")}};
}

Factors factors(const NodeView& view) {
  const std::string names = numbered_names("d", view.results[0].rank());
  return factors_from(view, "* -> " + names, names);
}

void reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const std::string site = attrs.text("site") + "#" + std::to_string(static_cast<int64_t>(operands[0][0]));
  const base::Philox philox(static_cast<uint64_t>(attrs.integer("seed")), site);
  const bool uniform = attrs.text("distribution") == "uniform";
  for (int64_t i = 0; i < results[0].elements(); ++i) {
    const uint64_t index = static_cast<uint64_t>(i);
    results[0][i] = uniform ? std::min(philox.uniform(index), kBelowOne) : philox.normal(index);
  }
}

Sample sample(std::string name, ir::Shape shape, std::string distribution) {
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
      .infer = infer,
      .factors = factors,
      .no_grad = "does not depend on floating-point operands",
      .cost = [](const NodeView& view) { return Cost{10.0 * static_cast<double>(view.results[0].elements())}; },
      .reference = reference,
      .samples =
          [] {
            return std::vector<Sample>{sample("uniform", {4, 6}, "uniform"), sample("normal", {3, 5}, "normal"),
                                       sample("one", {}, "normal")};
          },
  };
}

}  // namespace megacpp::ops
