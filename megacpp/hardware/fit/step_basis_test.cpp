// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/step_basis.h"

#include <gtest/gtest.h>

#include "megacpp/program/recipe/parse.h"

namespace megacpp::fit {
namespace {

hw::Chip plain_chip() {
  hw::Chip chip;
  chip.name = "toy";
  return chip;
}

recipe::Recipe in_precision(ir::DType precision) {
  recipe::Recipe recipe;
  recipe.train.precision = precision;
  recipe.model.pattern = "E";
  recipe.model.depth = 1;
  return recipe;
}

/// Attention, state-space blocks and experts.
recipe::Recipe hybrid() {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml",
                      std::vector<std::string>{"train.precision=bf16"});
}

TEST(StepBasisTest, WithoutMeasuredRatesATimeIsTheRooflineAndSaysSo) {
  EXPECT_EQ(basis_of_times(plain_chip(), in_precision(ir::DType::bf16)),
            "the roofline, the least that toy allows: what steps reach of it was not measured");
  const StepTime time{.compute = 2, .limit = 2};
  EXPECT_EQ(range_text(time, plain_chip()), "The roofline is 2.00 s.");
}

TEST(StepBasisTest, RatesWithoutWholeStepsLeaveTheEndOpen) {
  hw::Chip chip = plain_chip();
  chip.reached.products = chip.reached.traffic = 0.5;
  chip.facts.push_back({"reached.products", "0.5", "a bench", "2026-11-15"});
  EXPECT_EQ(basis_of_times(chip, in_precision(ir::DType::bf16)),
            "predicted by the rates that the file of toy gives (a bench, 2026-11-15)");
  const StepTime time{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 2}};
  EXPECT_EQ(range_text(time, chip),
            "Expected above 2.00 s, the roofline; how far above nobody measured: no whole step was run there.");
}

TEST(StepBasisTest, TheRateOfAnotherTypeIsNeverTakenSilently) {
  hw::Chip chip = plain_chip();
  chip.peak_flops = {{"bf16", 1e12}};
  EXPECT_EQ(basis_of_times(chip, in_precision(ir::DType::bf16)),
            basis_of_times(plain_chip(), in_precision(ir::DType::bf16)));
  EXPECT_EQ(basis_of_times(chip, in_precision(ir::DType::f32)),
            basis_of_times(plain_chip(), in_precision(ir::DType::bf16)) +
                "; products in f32 at the rate of bf16, since its file has none");
}

TEST(StepBasisTest, RatesOfOtherWorkAreNeverTakenSilently) {
  hw::Chip chip = plain_chip();
  chip.peak_flops = {{"bf16", 1e12}, {"f32", 1e11}};
  chip.reached.products = chip.reached.traffic = 0.5;
  chip.reached.attention = chip.reached.attention_grad = {{64, 0.4}};
  const std::string plain = basis_of_times(chip, in_precision(ir::DType::bf16));
  chip.reached.attention_grad.clear();
  EXPECT_EQ(basis_of_times(chip, hybrid()),
            plain + "; attention and state-space products at the share of products, since its file has none");
  chip.reached.attention_grad = chip.reached.attention;
  EXPECT_EQ(basis_of_times(chip, hybrid()),
            plain + "; state-space products at the share of products, since its file has none");
  chip.reached.ssd = 0.1;
  EXPECT_EQ(basis_of_times(chip, hybrid()), plain);
  EXPECT_EQ(basis_of_times(chip, in_precision(ir::DType::f32)),
            plain + "; shares of the peak are those of products in bf16, since its file has no others");
}

TEST(StepBasisTest, RoutersComputeInF32) {
  hw::Chip chip = plain_chip();
  chip.peak_flops = {{"bf16", 1e12}};
  EXPECT_EQ(basis_of_times(chip, hybrid()), basis_of_times(chip, in_precision(ir::DType::bf16)) +
                                                "; products in f32 at the rate of bf16, since its file has none");
}

TEST(StepBasisTest, CopiesOverALinkThatTheFileLacksAreSaidToBeLeftOut) {
  hw::Chip chip = plain_chip();
  recipe::Recipe recipe = in_precision(ir::DType::bf16);
  recipe.layout.offload = recipe::Offload::optimizer;
  EXPECT_EQ(basis_of_times(chip, recipe),
            basis_of_times(chip, in_precision(ir::DType::bf16)) +
                "; without the copies of layout.offload, since its file has no link pcie");
  const StepTime time{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 2}, .unpriced_bytes = 1 << 20};
  EXPECT_EQ(range_text(time, chip),
            "Expected above 2.00 s, the roofline without copies from and to the host: how long 1.00 MiB take nobody "
            "knows, since the file of toy has no link pcie.");
  chip.links = {{.name = "pcie", .scope = hw::LinkScope::node, .bytes_per_second = 128}};
  EXPECT_EQ(basis_of_times(chip, recipe), basis_of_times(chip, in_precision(ir::DType::bf16)));
}

TEST(StepBasisTest, MeasuredStepsGiveARange) {
  hw::Chip chip = plain_chip();
  chip.reached.products = chip.reached.traffic = 0.5;
  chip.reached.step_least = 0.75, chip.reached.step_most = 1.25;
  chip.facts.push_back({"reached.step_most", "1.25", "two models", ""});
  const StepTime time{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 3, .most = 5}};
  EXPECT_EQ(range_text(time, chip),
            "Expected between 3.00 s and 5.00 s, as far off as measured steps were (two models); the roofline is "
            "2.00 s.");
  const StepTime in_loops{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 2, .open = OpenEnd::loops}};
  EXPECT_EQ(range_text(in_loops, chip),
            "Expected above 2.00 s, the roofline; how far above nobody measured: whole steps were run there with "
            "blocks unrolled, not in loops (xla.loops).");
  const StepTime waits{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 2, .open = OpenEnd::copies}};
  EXPECT_EQ(range_text(waits, chip),
            "Expected above 2.00 s, the roofline; how far above is not known: the steps that ranges are taken from "
            "waited for no copies from and to the host (layout.offload).");
  const StepTime exchanges{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 2, .open = OpenEnd::links}};
  EXPECT_EQ(range_text(exchanges, chip),
            "Expected above 2.00 s, the roofline; how far above nobody measured: whole steps were run there on one "
            "chip alone.");
  const StepTime in_f32{.compute = 4, .limit = 2, .is_limit = false, .range = {.least = 2, .open = OpenEnd::dtype}};
  EXPECT_EQ(range_text(in_f32, chip),
            "Expected above 2.00 s, the roofline; how far above nobody measured: whole steps were run there in bf16.");
}

}  // namespace
}  // namespace megacpp::fit
