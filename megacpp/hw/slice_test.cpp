// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hw/slice.h"

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
  EXPECT_EQ(target("v6e:8x16").ports_along(0), 1);
  EXPECT_EQ(target("v6e:8x16").ports_along(1), 2);
  EXPECT_EQ(target("v6e:1x1").ports_along(0), 0);
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
  const HostRates rates{.matrix_flops = 64e9,
                        .product_bytes_per_second = 28e9,
                        .product_wait = 1.5,
                        .attention_flops = 32e9,
                        .attention_grad_flops = 48e9,
                        .scores = {.exponentials = 8e8, .rows = 8e7},
                        .score_grads = {.exponentials = 4e8, .rows = 4e7},
                        .ssd_flops = 16e9,
                        .ssd_positions_per_second = 8e9,
                        .elementwise_per_second = 4e9,
                        .bytes_per_second = 40e9,
                        .moves = {{4096, 80e9}, {8192, 40e9}},
                        .near = {.products = 6000, .attention = 8000, .attention_grad = 10000, .ssd = 12000},
                        .launch_seconds = 1e-5,
                        .cores = 2,
                        .memory = 8 << 20};
  int asked = 0;
  const TargetOptions options{.places = {}, .host_rates = [&] { return ++asked, rates; }};
  const Slice four = parse_target("host:4", options);
  EXPECT_EQ(four.chips(), 4);
  EXPECT_EQ(four.hosts(), 1);
  EXPECT_EQ(four.chip.peak("f32"), 16e9);
  EXPECT_EQ(four.chip.product_bytes_per_second, 7e9);
  EXPECT_EQ(four.chip.product_wait, 1.5);
  EXPECT_EQ(four.chip.scores.exponentials, 2e8);
  EXPECT_EQ(four.chip.scores.rows, 2e7);
  EXPECT_EQ(four.chip.score_grads.exponentials, 1e8);
  EXPECT_EQ(four.chip.score_grads.rows, 1e7);
  EXPECT_EQ(four.chip.reached.ssd, 0.25) << "of the rate of products";
  EXPECT_EQ(four.chip.ssd_positions_per_second, 2e9);
  EXPECT_EQ(four.chip.reached.attention, (std::map<int64_t, double>{{1, 0.5}}));
  EXPECT_EQ(four.chip.reached.attention_grad, (std::map<int64_t, double>{{1, 0.75}}));
  ASSERT_EQ(four.chip.moves.size(), 2U);
  EXPECT_EQ(four.chip.moves[0].distance, 1024) << "while the others touch as many";
  EXPECT_EQ(four.chip.moves[0].bytes_per_second, 20e9);
  EXPECT_EQ(four.chip.near.products, 1500);
  EXPECT_EQ(four.chip.near.attention, 2000);
  EXPECT_EQ(four.chip.near.attention_grad, 2500);
  EXPECT_EQ(four.chip.near.ssd, 3000);
  EXPECT_EQ(four.chip.fact("memory.moves.4096")->value, "8e+10");
  EXPECT_EQ(four.chip.elementwise_per_second, 1e9);
  EXPECT_EQ(four.chip.memory_bytes_per_second, 10e9);
  EXPECT_EQ(four.chip.reached.launch, 0) << "two cores for four chips: none has a second one to wake";
  EXPECT_EQ(four.chip.usable_bytes, 2 << 20);
  EXPECT_EQ(four.chip.link("memory")->bytes_per_second, 5e9);
  const Slice whole = parse_target("host", options);
  EXPECT_EQ(whole.chips(), 1);
  EXPECT_EQ(whole.chip.reached.launch, 1e-5);
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
  Chip with_rate = chip;
  with_rate.product_bytes_per_second = with_rate.elementwise_per_second = 16e9;
  with_rate.scores = with_rate.score_grads = {.exponentials = 8e9, .rows = 8e8};
  with_rate.moves = {{.distance = 4096, .bytes_per_second = 80e9}, {.distance = 1, .bytes_per_second = 40e9}};
  with_rate.near.products = 4096;
  const Chip shared = device_of(with_rate);
  EXPECT_EQ(shared.moves[0].distance, 4096 / chip.devices) << "the other one touches as many";
  EXPECT_EQ(shared.moves[0].bytes_per_second, 80e9 / static_cast<double>(chip.devices));
  EXPECT_EQ(shared.moves[1].distance, 1) << "never none, which has no logarithm";
  EXPECT_EQ(shared.near.products, 4096 / chip.devices);
  EXPECT_EQ(device_of(with_rate).scores.exponentials, 8e9 / static_cast<double>(chip.devices));
  EXPECT_EQ(device_of(with_rate).score_grads.rows, 8e8 / static_cast<double>(chip.devices));
  EXPECT_EQ(device_of(with_rate).product_bytes_per_second, 16e9 / static_cast<double>(chip.devices));
  EXPECT_EQ(device_of(with_rate).elementwise_per_second, 16e9 / static_cast<double>(chip.devices));
  EXPECT_EQ(device_of(target("v6e:2x2").chip).usable_bytes, 33'546'039'296);
}

}  // namespace
}  // namespace megacpp::hw
