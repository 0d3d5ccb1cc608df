// SPDX-License-Identifier: Apache-2.0
// The chips that are built in: complete, plausible, and with a source and a date for each number.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <set>

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/hw/builtin_chips.h"
#include "megacpp/hardware/hw/chip_library.h"

namespace megacpp::hw {
namespace {

std::vector<Chip> chips() {
  std::vector<Chip> chips;
  for (const ListedChip& listed : all_chips(ChipPlaces{})) chips.push_back(listed.chip.value());
  return chips;
}

TEST(ChipsTest, AllAreThere) {
  std::set<std::string> names;
  for (const Chip& chip : chips()) {
    EXPECT_EQ(chip.origin, "built in");
    EXPECT_FALSE(chip.title.empty()) << chip.name;
    EXPECT_TRUE(names.insert(chip.name).second) << chip.name;
    for (const std::string& alias : chip.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
  }
  EXPECT_EQ(chips().size(), builtin_chips().size());
  for (const char* name : {"v5e", "v5p", "v6e", "tpu7x", "7x", "a100", "h100", "h200", "b200"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(ChipsTest, EveryGpuKnowsWhatItsDevicesCallThemselvesAndNoTwoShareAName) {
  std::set<std::string> names;
  for (const Chip& chip : chips()) {
    EXPECT_TRUE(chip.kind != ChipKind::gpu || !chip.device_names.empty()) << chip.name;
    for (const std::string& name : chip.device_names) {
      EXPECT_TRUE(names.insert(name).second) << chip.name << " " << name;
      const std::optional<Chip> found = find_chip_of_device(name, ChipPlaces{});
      ASSERT_TRUE(found.has_value()) << name;
      EXPECT_EQ(found->name, chip.name) << name;
    }
  }
  EXPECT_TRUE(names.contains("NVIDIA H200"));
}

TEST(ChipsTest, DevicesAreKnownByTheirExactName) {
  EXPECT_EQ(find_chip_of_device("NVIDIA H100 80GB HBM3", ChipPlaces{})->name, "h100");
  EXPECT_EQ(find_chip_of_device("NVIDIA H200", ChipPlaces{})->name, "h200");
  for (const char* other : {"", "h200", "H200", "nvidia h200", "NVIDIA H200 ", "NVIDIA H200 NVL",
                            "NVIDIA H200, NVIDIA T400", "NVIDIA H100", "NVIDIA H100 PCIe", "NVIDIA H100 NVL",
                            "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA GB200", "unnamed"})
    EXPECT_FALSE(find_chip_of_device(other, ChipPlaces{}).has_value()) << other;
}

TEST(ChipsTest, EveryNumberHasASourceAndADate) {
  for (const Chip& chip : chips()) {
    EXPECT_GE(chip.facts.size(), 15U) << chip.name;
    for (const Fact& fact : chip.facts) {
      EXPECT_FALSE(fact.source.empty()) << chip.name << " " << fact.name;
      EXPECT_EQ(fact.date.size(), 10U) << chip.name << " " << fact.name << " has no date";
    }
  }
}

TEST(ChipsTest, EachIsComplete) {
  for (const Chip& chip : chips()) {
    EXPECT_GT(chip.alignment, 1) << chip.name;
    EXPECT_TRUE(chip.peak("bf16")) << chip.name;
    ASSERT_NE(chip.fastest_link(), nullptr) << chip.name;
    bool reaches_all = false;
    for (const Link& link : chip.links) {
      EXPECT_GT(link.latency, 0) << chip.name << " " << link.name;
      reaches_all = reaches_all || link.scope == LinkScope::cluster;
    }
    EXPECT_TRUE(reaches_all) << chip.name;
    EXPECT_EQ(chip.tiling.exists(), chip.kind == ChipKind::tpu) << chip.name;
    EXPECT_EQ(chip.xla.code_most > 0, chip.kind == ChipKind::tpu) << chip.name;
    const int64_t neighbours = 2 * static_cast<int64_t>(chip.slices.host.size());
    EXPECT_EQ(chip.fastest_link()->ports, chip.slices.shape == SliceShape::torus ? neighbours : 1) << chip.name;
  }
}

TEST(ChipsTest, NumbersArePlausible) {
  for (const Chip& chip : chips()) {
    const double usable = static_cast<double>(chip.usable_bytes), nominal = static_cast<double>(chip.nominal_bytes);
    EXPECT_GT(usable, 0.95 * nominal) << chip.name;
    const double intensity = *chip.peak("bf16") / chip.memory_bytes_per_second;
    EXPECT_GT(intensity, 100) << chip.name;  // all can do more work than they can read
    EXPECT_LT(intensity, 1000) << chip.name;
    EXPECT_LT(chip.fastest_link()->bytes_per_second, chip.memory_bytes_per_second) << chip.name;
    const int64_t difference = chip.nominal_bytes - chip.usable_bytes;
    EXPECT_EQ(chip.reserved_bytes.value_or(difference), difference) << chip.name;
  }
}

TEST(ChipsTest, MeasuredStepsAreInTheFilesOfTheirChips) {
  for (const Chip& chip : chips()) EXPECT_EQ(chip.selective_recompute.empty(), chip.name != "h200") << chip.name;
  const Chip h200 = find_chip("h200", ChipPlaces{});
  EXPECT_EQ(h200.selective_recompute.at("bf16").speed, 1.006);
  EXPECT_EQ(h200.selective_recompute.at("bf16").memory, 0.795);
  ASSERT_NE(h200.fact("recompute.selective_speed.bf16"), nullptr);
  EXPECT_EQ(h200.fact("recompute.selective_speed.bf16")->source, "dense 1.1B on one H200, blocks unrolled");
  EXPECT_EQ(h200.fact("recompute.selective_speed.f32"), nullptr);
}

TEST(ChipsTest, WhatStepsReachIsKnownWhereSomebodyMeasured) {
  const std::set<std::string> known = {"h100", "h200", "v6e"};
  for (const Chip& chip : chips()) {
    EXPECT_EQ(chip.reached.is_known(), known.contains(chip.name)) << chip.name;
    EXPECT_EQ(chip.reached.step_most > 0, chip.name == "h200") << chip.name << ": whole steps ran on an H200 alone";
  }
  const Reached h200 = find_chip("h200", ChipPlaces{}).reached;
  EXPECT_NEAR(h200.products * 989e12, 735e12, 1e12);
  EXPECT_EQ(h200.ssd, 0) << "XLA runs their parts";
  EXPECT_LT(h200.attention.at(64), h200.attention.at(128)) << "narrow heads wait for exponentials";
  EXPECT_LT(h200.attention_grad.at(64), h200.attention.at(64));
  EXPECT_LT(h200.step_least, 1);
  EXPECT_GT(h200.step_most, 1);
}

TEST(ChipsTest, ALaneWithKernelsOfItsOwnHasItsOwnRates) {
  const Chip h200 = find_chip("h200", ChipPlaces{}), by_cuda = rates_by(h200, "cuda"), by_xla = rates_by(h200, "xla");
  EXPECT_EQ(by_xla.reached.traffic, h200.reached.traffic);
  EXPECT_EQ(by_xla.fact("reached.traffic")->source, h200.fact("reached.traffic")->source);
  EXPECT_TRUE(by_cuda.reached.is_known());
  EXPECT_GT(by_cuda.reached.ssd, 0);
  EXPECT_NE(by_cuda.reached.traffic, h200.reached.traffic);
  EXPECT_EQ(by_cuda.fact("reached.traffic")->source, h200.fact("reached.cuda.traffic")->source);
  EXPECT_EQ(by_cuda.fact("reached.cuda.traffic"), nullptr);
  const Chip again = rates_by(by_cuda, "xla");
  EXPECT_EQ(again.reached.traffic, by_cuda.reached.traffic) << "a lane's rates stay the lane's";
  for (const Fact& fact : by_cuda.facts)
    EXPECT_FALSE(fact.name.starts_with("reached.") && h200.fact("reached.cuda" + fact.name.substr(7)) == nullptr)
        << fact.name << " is another lane's";
}

// On GPUs all that a file has of compiled steps is of unrolled blocks but for this.
TEST(ChipsTest, OfGpusTheGapsOfStepsInLoopsAreKeptApart) {
  for (const Chip& chip : chips()) {
    const bool is_gpu = chip.kind == ChipKind::gpu;
    EXPECT_EQ(chip.xla.loops_gaps_most > 0, is_gpu) << chip.name;
    EXPECT_EQ(chip.xla.loops_gaps_most > chip.xla.gaps_most, is_gpu) << chip.name;
    if (is_gpu) {
      EXPECT_LT(chip.xla.gaps_least, 1) << chip.name;
    }
  }
}

TEST(ChipsTest, TheLimitOfV6eIsTheCompilers) {
  const Chip v6e = find_chip("v6e", ChipPlaces{});
  for (const char* name : {"v5e", "v5p", "tpu7x"})
    EXPECT_EQ(find_chip(name, ChipPlaces{}).xla.code_most, v6e.xla.code_most) << name << " is taken to need as much";
  EXPECT_EQ(v6e.usable_bytes, 33'546'039'296);
  EXPECT_EQ(v6e.link("ici")->port_bytes_per_second(), 100e9);
}

TEST(ChipsTest, TheCompilerOfV6eIsTheOneThatCompiledTheRecordedRows) {
  const Chip v6e = find_chip("v6e", ChipPlaces{});
  ASSERT_FALSE(v6e.xla.compiler.empty());
  const std::string record =
      base::read_file(std::filesystem::path(MEGACPP_SOURCE_DIR) / "bench/results/2026-11-18-v6e.json");
  EXPECT_NE(record.find(v6e.xla.compiler + "\""), std::string::npos) << v6e.xla.compiler;
  for (const char* name : {"v5e", "v5p", "tpu7x", "h200"})
    EXPECT_TRUE(find_chip(name, ChipPlaces{}).xla.compiler.empty()) << name << ": nobody asked one";
}

}  // namespace
}  // namespace megacpp::hw
