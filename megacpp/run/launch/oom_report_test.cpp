// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/oom_report.h"

#include <gtest/gtest.h>

#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/launch/assumptions.h"

namespace megacpp::launch {
namespace {

// Whoever found it, and whatever it does not say: the report has what was launched and what the bytes are for.
TEST(LaunchReportTest, EveryClassOfEveryBackendGivesTheSameReport) {
  for (const char* backend : {"cpu", "xla"}) {
    const recipe::Recipe recipe =
        recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                     std::vector<std::string>{"layout.data_parallel=4", std::string("backend=") + backend});
    UsersCatalog none({.none = true}, catalog::Access::read);
    const fit::Estimate estimate =
        fit::make_estimate(recipe, assumptions_for(recipe, hw::parse_target("v6e:2x2"), none));
    const std::vector<fit::Attempt> tried = {{.rung = 1,
                                              .name = "batch",
                                              .changes = {{"train.batch", "4"}},
                                              .verdict = fit::Verdict::not_enough,
                                              .needed = 2048,
                                              .limit = 1024}};
    for (const auto cls :
         {memory::OomClass::compile, memory::OomClass::load, memory::OomClass::runtime, memory::OomClass::host}) {
      const memory::OutOfMemory bare(memory::code_of(cls), {}, {.cls = cls, .phase = "loading"});
      const catalog::OomReport report = make_report(estimate, bare, tried);
      EXPECT_EQ(report.subject.pattern, recipe.model.pattern);
      EXPECT_EQ(report.subject.backend, backend);
      EXPECT_EQ(report.subject.mesh, "data=4");
      EXPECT_FALSE(report.roles.empty());
      EXPECT_FALSE(report.largest.empty());
      std::string text;
      for (const std::string& line : lines_of(report)) text += line + "\n";
      for (const std::string& part :
           {"model nam52-tiny, pattern " + recipe.model.pattern + ", depth ", std::string("shape batch 8, sequence "),
            std::string("layout policy=spmd data_parallel=4 zero=1 on v6e:2x2, mesh data=4"),
            std::string(memory::oom_class_name(cls)), std::string("while loading"),
            std::string("tried rung 1 batch not enough: train.batch=4, 2.00 KiB of 1.00 KiB")})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace megacpp::launch
