// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/spec_gates.h"

#include <gtest/gtest.h>

#include <functional>

#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/lora.h"
#include "tests/support/errors.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;
using blocks::Parameter;

const Parameter kQueries{"wq", {64, 64}, {Dim::whole, Dim::heads}, {}};

Plan plan_with(int64_t zero) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = {.data_parallel = 2, .context_parallel = 2, .tensor_parallel = 2, .zero = zero};
  recipe.train.micro_steps = 2;
  return make_plan(recipe);
}

GradientPath path_of(const Plan& plan, const ParameterSpec& spec, const char* axis) {
  return gradient_path(plan, kQueries, spec, plan.parallel.mesh.axis(axis));
}

TEST(SpecGatesTest, EveryAxisHasAPathAtEveryZero) {
  for (const int64_t zero : {0, 1, 2, 3}) {
    const Plan plan = plan_with(zero);
    const ParameterSpec spec = spec_of(plan, kQueries);
    const GradientPath over_copies = zero < 2 ? GradientPath::waits : GradientPath::scattered;
    EXPECT_EQ(path_of(plan, spec, "data"), over_copies) << zero;
    EXPECT_EQ(path_of(plan, spec, "context"), over_copies) << zero;
    EXPECT_EQ(path_of(plan, spec, "model"), GradientPath::owned) << zero;
    const Parameter norm{"norm", {64}, {Dim::whole}, {}};
    EXPECT_EQ(gradient_path(plan, norm, spec_of(plan, norm), plan.parallel.mesh.axis("model")), GradientPath::whole);
  }
}

TEST(SpecGatesTest, GradientsThatDoNotWaitAreScatteredOrWhole) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.train.micro_steps = 1;
  for (const int64_t zero : {0, 1}) {
    recipe.layout = {.data_parallel = 2, .zero = zero};
    const Plan plan = make_plan(recipe);
    EXPECT_EQ(path_of(plan, spec_of(plan, kQueries), "data"),
              zero == 0 ? GradientPath::whole : GradientPath::scattered);
  }
}

// And the adapters of each matrix, and the same frozen.
std::vector<Parameter> with_adapters(const std::vector<Parameter>& parameters) {
  std::vector<Parameter> all = parameters;
  for (Parameter parameter : parameters) {
    parameter.trainable = false;
    parameter.frozen = true;
    all.push_back(parameter);
    if (parameter.kind != blocks::ParameterKind::matrix) continue;
    for (Parameter& adapter : blocks::adapters_of({.rank = 4}, parameter)) all.push_back(std::move(adapter));
  }
  return all;
}

// A column-parallel matrix has a whole A and a split B, a row-parallel one the other way round.
TEST(SpecGatesTest, AdaptersHaveAPathAlongEveryAxisTheyAreReplicatedOn) {
  const Parameter out{"wo", {64, 64}, {Dim::heads, Dim::whole}, {}};
  for (const int64_t zero : {0, 1, 2, 3}) {
    const Plan plan = plan_with(zero);
    const GradientPath over_copies = zero < 2 ? GradientPath::waits : GradientPath::scattered;
    const auto path = [&plan](const Parameter& adapter, const char* axis) {
      return gradient_path(plan, adapter, spec_of(plan, adapter), plan.parallel.mesh.axis(axis));
    };
    const std::vector<Parameter> columns = blocks::adapters_of({.rank = 4}, kQueries),
                                 rows = blocks::adapters_of({.rank = 4}, out);
    for (const Parameter& adapter : {columns[0], columns[1], rows[0], rows[1]}) {
      EXPECT_EQ(path(adapter, "data"), over_copies) << adapter.name << " zero " << zero;
      EXPECT_EQ(path(adapter, "context"), over_copies) << adapter.name << " zero " << zero;
    }
    EXPECT_EQ(path(columns[0], "model"), GradientPath::whole) << zero;
    EXPECT_EQ(path(columns[1], "model"), GradientPath::owned) << zero;
    EXPECT_EQ(path(rows[0], "model"), GradientPath::owned) << zero;
    EXPECT_EQ(path(rows[1], "model"), GradientPath::whole) << zero;
  }
}

TEST(SpecGatesTest, EveryParameterOfEveryFamilyHasAPathInEveryLayout) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  const recipe::Model& m = recipe.model;
  int64_t specs = 0;
  for (int64_t mask = 0; mask < 16; ++mask) {
    const auto degree = [mask](int64_t bit) { return (mask >> bit & 1) != 0 ? int64_t{2} : int64_t{1}; };
    for (const int64_t zero : {0, 1, 2, 3}) {
      recipe.layout = {.data_parallel = degree(0),
                       .expert_parallel = degree(1),
                       .context_parallel = degree(2),
                       .tensor_parallel = degree(3) * degree(3),
                       .expert_tensor_parallel = degree(3),
                       .zero = zero};
      const Plan plan = make_plan(recipe);
      for (const blocks::BlockDef& def : blocks::all_blocks())
        for (const Parameter& parameter :
             with_adapters(def.parameters({.hidden = m.hidden}, m.families.at(def.letter)))) {
          EXPECT_NO_THROW(spec_of(plan, parameter)) << parameter.name << " on " << to_string(plan.parallel.mesh);
          ++specs;
        }
    }
  }
  EXPECT_GT(specs, 1000);
}

TEST(SpecGatesTest, BrokenSpecsAreRefused) {
  struct Case {
    const char* name;
    int64_t zero;
    std::function<void(ParameterSpec&, const ir::Mesh&)> spoil;
  };
  const auto sharding = [](const char* text, const ir::Mesh& mesh) { return ir::parse_sharding(text, mesh); };
  const std::vector<Case> cases = {
      {"twice", 1, [&](ParameterSpec& s, const ir::Mesh& m) { s.stored = sharding("model,model", m); }},
      {"twice in one", 1, [&](ParameterSpec& s, const ir::Mesh& m) { s.kept = sharding("-,model+model", m); }},
      {"split and unreduced", 1,
       [&](ParameterSpec& s, const ir::Mesh& m) { s.gradient = sharding("data,model ~ data+context", m); }},
      {"copies never summed", 1,
       [&](ParameterSpec& s, const ir::Mesh& m) { s.gradient = sharding("-,model ~ data", m); }},
      {"no longer waiting", 2,
       [&](ParameterSpec& s, const ir::Mesh& m) { s.gradient = sharding("-,model ~ data+context", m); }},
      {"optimizer elsewhere", 2, [&](ParameterSpec& s, const ir::Mesh& m) { s.optimizer = sharding("data,model", m); }},
      {"optimizer unreduced", 1,
       [&](ParameterSpec& s, const ir::Mesh& m) { s.optimizer = sharding("-,model ~ data", m); }},
      {"gradient of a part lost", 1,
       [&](ParameterSpec& s, const ir::Mesh& m) { s.gradient = sharding("-,- ~ data+context", m); }},
  };
  for (const Case& each : cases) {
    const Plan plan = plan_with(each.zero);
    ParameterSpec spec = spec_of(plan, kQueries);
    each.spoil(spec, plan.parallel.mesh);
    const base::Error error = testing_support::error_of([&] { check_spec(plan, kQueries, spec); });
    EXPECT_EQ(error.code(), base::Code::E1409) << each.name;
  }
}

TEST(SpecGatesTest, DimensionsThatShareAnAxisAreRefused) {
  const Plan plan = plan_with(1);
  for (const Parameter& parameter : {Parameter{"both", {8, 8}, {Dim::heads, Dim::mlp}, {}},
                                     Parameter{"along the batch", {8, 8}, {Dim::batch, Dim::whole}, {}}}) {
    const base::Problem problem = testing_support::problem_of(base::Code::E1409, [&] { spec_of(plan, parameter); });
    EXPECT_EQ(problem.where, parameter.name);
  }
}

}  // namespace
}  // namespace megacpp::plan
