// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/slice.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/errors.h"

namespace megacpp::hw {
namespace {

using base::Code;
using testing_support::problem_of;

Slice target(const std::string& name) { return parse_target(name, {.places = {}}); }

TEST(SliceTest, ATargetIsReadFromItsName) {
  const Slice pod = target("v6e:16x16");
  EXPECT_EQ(pod.chip.name, "v6e");
  EXPECT_EQ(pod.sizes, (Sizes{16, 16}));
  EXPECT_EQ(pod.chips(), 256);
  EXPECT_EQ(pod.devices(), 256);
  EXPECT_EQ(target("v5:4x4x8").chip.name, "v5p");
  EXPECT_EQ(target("v5p:4x4x8").chips(), 128);
  EXPECT_EQ(target("7x:2x2x1").chip.name, "tpu7x");
  EXPECT_EQ(target("tpu7x:2x2x1").devices(), 8);
  EXPECT_EQ(target("trillium:2x2").chips(), 4);
}

TEST(SliceTest, OneSliceHasOneName) {
  EXPECT_EQ(target("v6e:2x2").name, "v6e:2x2");
  EXPECT_EQ(target("trillium:2x2").name, "v6e:2x2");
  EXPECT_EQ(target("v6e:02x2").name, "v6e:2x2");
  EXPECT_EQ(target("h100:016").name, "h100:16");
}

TEST(SliceTest, GpusComeInNodes) {
  EXPECT_EQ(target("h100:8").sizes, Sizes{8});
  EXPECT_EQ(target("h100:3").sizes, Sizes{3});
  EXPECT_EQ(target("h200:16").sizes, (Sizes{8, 2}));
  EXPECT_EQ(target("h200:16").hosts(), 2);
  EXPECT_EQ(target("h200:16").host_name(7), "host 0");
  EXPECT_EQ(target("h200:16").host_name(8), "host 1");
  EXPECT_EQ(problem_of(Code::E1602, [] { target("h100:12"); }).next, "take h100:8 or h100:16");
  EXPECT_EQ(problem_of(Code::E1602, [] { target("b200"); }).next, "take b200:8");
  for (const char* name : {"h100:2x8", "h100:", "h100:0", "h100:-8", "h100:eight"})
    problem_of(Code::E1602, [&] { target(name); });
}

TEST(SliceTest, EveryChipHasCoordinatesAndAHost) {
  const Slice slice = target("v6e:4x8");
  EXPECT_EQ(slice.coordinates(0), (Sizes{0, 0}));
  EXPECT_EQ(slice.coordinates(5), (Sizes{1, 1}));
  EXPECT_EQ(slice.hosts(), 8);
  EXPECT_EQ(slice.host_name(5), "host 0");
  EXPECT_EQ(slice.host_name(2), "host 1");
  EXPECT_EQ(slice.host_name(8), "host 2");
  EXPECT_EQ(slice.host_name(31), "host 7");
  EXPECT_EQ(target("v6e:1x1").hosts(), 1);
  EXPECT_EQ(target("v5p:2x2x2").hosts(), 2);
  EXPECT_EQ(target("v5p:2x2x2").host_of(4), 1);
}

TEST(SliceTest, EveryHostHoldsAsManyChipsAsAnyOther) {
  for (const char* name : {"v6e:16x16", "v5e:8x16", "v5p:4x4x8", "tpu7x:2x4x4", "h100:64"}) {
    const Slice slice = target(name);
    std::map<int64_t, int64_t> chips;
    std::set<Sizes> places;
    for (int64_t i = 0; i < slice.chips(); ++i) {
      ++chips[slice.host_of(i)];
      places.insert(slice.coordinates(i));
    }
    EXPECT_EQ(static_cast<int64_t>(places.size()), slice.chips()) << name;
    EXPECT_EQ(static_cast<int64_t>(chips.size()), slice.hosts()) << name;
    for (const auto& [host, count] : chips) EXPECT_EQ(count, slice.chips() / slice.hosts()) << name;
  }
}

TEST(SliceTest, RingsCloseWhereTheVendorClosesThem) {
  EXPECT_FALSE(target("v6e:8x16").wraps(0));
  EXPECT_TRUE(target("v6e:8x16").wraps(1));
  EXPECT_TRUE(target("v6e:16x16").wraps(0));
  EXPECT_FALSE(target("v6e:8x8").wraps(0));
  EXPECT_FALSE(target("v5p:2x4x4").wraps(1));
  EXPECT_TRUE(target("v5p:4x4x4").wraps(1));
  EXPECT_TRUE(target("h100:8").wraps(0));

  EXPECT_EQ(target("v6e:8x16").links_along(0), 7);
  EXPECT_EQ(target("v6e:8x16").links_along(1), 16);
  EXPECT_EQ(target("v6e:1x1").links_along(0), 0);
}

TEST(SliceTest, WhatIsNoSliceIsRefusedWithTheNearest) {
  const base::Problem odd = problem_of(Code::E1602, [] { target("v6e:3x5"); });
  EXPECT_EQ(odd.where, "hardware 'v6e:3x5'");
  EXPECT_EQ(odd.got, "3x5, 15 chips");
  EXPECT_EQ(odd.wanted, "one of 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16");
  EXPECT_EQ(odd.next, "take v6e:4x4, v6e:2x4 or v6e:4x8");
  EXPECT_EQ(problem_of(Code::E1602, [] { target("v6e:4x2"); }).next.rfind("take v6e:2x4,", 0), 0U);
  EXPECT_EQ(problem_of(Code::E1602, [] { target("v5p:4x4x5"); }).next.rfind("take v5p:4x4x4, ", 0), 0U);
  EXPECT_NE(problem_of(Code::E1602, [] { target("v5p:32x32x32"); }).wanted.find("6144 chips"), std::string::npos);
  for (const char* name : {"v6e", "v6e:", "v6e:4x", "v6e:4x4x4x4", "v6e:4X4", "v6e:-2x2", "v6e:0x4", "v6e:16",
                           "v6e:99999999x1", "v5p:4x4"})
    EXPECT_NE(problem_of(Code::E1602, [&] { target(name); }).next.find("take "), std::string::npos) << name;
}

TEST(SliceTest, UnknownHardwareGetsTheNearestName) {
  EXPECT_EQ(problem_of(Code::E1601, [] { target("v6:4x4"); }).next, "did you mean 'v6e'?");
  EXPECT_EQ(problem_of(Code::E1601, [] { target("h10:8"); }).next, "did you mean 'h100'?");
  EXPECT_NE(problem_of(Code::E1601, [] { target("mainframe:8"); }).next.find("megacpp hw"), std::string::npos);
  problem_of(Code::E1601, [] { target(""); });
}

TEST(SliceTest, ThisMachineIsSharedByItsVirtualChips) {
  const HostRates rates{
      .matrix_flops = 64e9, .scan_flops = 16e9, .bytes_per_second = 40e9, .cores = 2, .memory = 8 << 20};
  int asked = 0;
  const TargetOptions options{.places = {}, .host_rates = [&] { return ++asked, rates; }};
  const Slice four = parse_target("host:4", options);
  EXPECT_EQ(four.chips(), 4);
  EXPECT_EQ(four.hosts(), 1);
  EXPECT_EQ(four.chip.peak("f32"), 16e9);
  EXPECT_EQ(four.chip.reached.ssd, 0.25) << "of the rate of products";
  EXPECT_EQ(four.chip.reached.attention, (std::map<int64_t, double>{{1, 0.25}}));
  EXPECT_EQ(four.chip.reached.attention_grad, four.chip.reached.attention);
  EXPECT_EQ(four.chip.fact("compute.scans")->value, "1.6e+10");
  EXPECT_EQ(four.chip.memory_bytes_per_second, 10e9);
  EXPECT_EQ(four.chip.usable_bytes, 2 << 20);
  EXPECT_EQ(four.chip.link("memory")->bytes_per_second, 5e9);
  const Slice whole = parse_target("host", options);
  EXPECT_EQ(whole.chips(), 1);
  EXPECT_EQ(whole.name, "host:1");
  EXPECT_EQ(asked, 2);
  parse_target("v6e:2x2", options);
  EXPECT_EQ(asked, 2);
  for (const char* name : {"host:", "host:0", "host:2x2", "host:many"})
    problem_of(Code::E1602, [&] { parse_target(name, options); });
  problem_of(Code::E1602, [] { target("host"); });
}

TEST(SliceTest, AllValidSlicesAreTargets) {
  for (const char* chip : {"v5e", "v5p", "v6e", "tpu7x"}) {
    const std::vector<Sizes> slices = valid_slices(find_chip(chip, ChipPlaces{}));
    EXPECT_GE(slices.size(), 8U);
    for (const Sizes& sizes : slices) EXPECT_EQ(target(chip + (":" + to_text(sizes))).sizes, sizes);
  }
}

TEST(SliceTest, ADeviceHasItsShareOfAChip) {
  const Chip chip = target("tpu7x:2x2x1").chip, device = device_of(chip);
  EXPECT_EQ(device.usable_bytes, chip.usable_bytes / 2);
  EXPECT_EQ(device.peak("bf16"), 2307e12 / 2);
  EXPECT_EQ(device.memory_bytes_per_second, 7380e9 / 2);
  EXPECT_EQ(device.devices, 1);
  EXPECT_EQ(device_of(target("v6e:2x2").chip).usable_bytes, 33'546'039'296);
}

}  // namespace
}  // namespace megacpp::hw
