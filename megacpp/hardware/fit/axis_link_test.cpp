// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/axis_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "megacpp/core/base/error.h"

namespace megacpp::fit {
namespace {

AxisLink link(const hw::Slice& slice, const std::vector<ir::MeshAxis>& axes, const char* along) {
  const ir::Mesh mesh(axes);
  return link_along(slice, mesh, ir::parse_axes(along, mesh));
}

// A v6e has four ports of 100 GB/s.
constexpr double kPort = 100e9, kHop = 0.5e-6;
// An H100 as its file has it.
constexpr double kNvlink = 450e9, kNvlinkLatency = 3.4e-6, kNetwork = 50e9, kNetworkLatency = 14e-6;

TEST(AxisLinkTest, SixteenChipsOfATorusCloseToARing) {
  const hw::Slice slice = hw::parse_target("v6e:16x16");
  for (const char* axis : {"data", "model"}) {
    const AxisLink found = link(slice, {{"data", 16}, {"model", 16}}, axis);
    EXPECT_EQ(found.name, "ici");
    EXPECT_DOUBLE_EQ(found.ring.bytes_per_second, 2 * kPort) << axis;
    EXPECT_DOUBLE_EQ(found.ring.latency, 8 * kHop) << "both ways around";
  }
  const AxisLink both = link(slice, {{"data", 16}, {"model", 16}}, "data+model");
  EXPECT_DOUBLE_EQ(both.ring.bytes_per_second, 4 * kPort);
  EXPECT_DOUBLE_EQ(both.ring.latency, 16 * kHop) << "along one dimension and then the other, not through 255 chips";
}

TEST(AxisLinkTest, GroupsThatLieBetweenEachOtherShareTheWires) {
  const hw::Slice slice = hw::parse_target("v6e:16x16");
  const std::vector<ir::MeshAxis> axes = {{"data", 4}, {"model", 64}};
  const AxisLink apart = link(slice, axes, "data");  // every fourth row
  EXPECT_DOUBLE_EQ(apart.ring.bytes_per_second, 2 * kPort / 4);
  EXPECT_DOUBLE_EQ(apart.ring.latency, 2 * 4 * kHop);
  EXPECT_DOUBLE_EQ(apart.one_peer.bytes_per_second, kPort / 4);
  EXPECT_DOUBLE_EQ(apart.one_peer.latency, 4 * kHop);
  EXPECT_DOUBLE_EQ(link(slice, axes, "model").ring.bytes_per_second, (2 + 1) * kPort)
      << "a ring of 16, and 4 rows in line";
}

TEST(AxisLinkTest, FourChipsOfATorusAreALine) {
  const hw::Slice slice = hw::parse_target("v6e:4x4");
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "model").ring.bytes_per_second, kPort);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "model").ring.latency, 3 * kHop);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "data").ring.bytes_per_second, kPort);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}}, "data").ring.bytes_per_second, 2 * kPort);
}

// Each wire of a line counted by hand: every chip sends one byte to every chip of its line, itself included.
double busiest_wire_by_hand(int64_t chips, bool closes) {
  std::vector<double> right(static_cast<size_t>(chips), 0), left = right;  // over the wire behind each chip
  const auto at = [chips](int64_t chip) { return static_cast<size_t>((chip + chips) % chips); };
  const auto walk = [&](int64_t from, int64_t hops, double bytes) {
    for (int64_t h = 0; h < std::abs(hops); ++h) (hops > 0 ? right[at(from + h)] : left[at(from - h - 1)]) += bytes;
  };
  for (int64_t from = 0; from < chips; ++from)
    for (int64_t to = 0; to < chips; ++to) {
      if (!closes) {
        walk(from, to - from, 1);
        continue;
      }
      const int64_t clockwise = (to - from + chips) % chips, back = clockwise - chips;
      if (2 * clockwise == chips) {
        walk(from, clockwise, 0.5);
        walk(from, back, 0.5);
      } else {
        walk(from, 2 * clockwise < chips ? clockwise : back, 1);
      }
    }
  return std::max(*std::ranges::max_element(right), *std::ranges::max_element(left));
}

// A chip has n bytes, one for each chip, and so sends n - 1.
TEST(AxisLinkTest, OfAllPairsTheBusiestWireOfATorusDecides) {
  const hw::Slice large = hw::parse_target("v6e:16x16"), small = hw::parse_target("v6e:8x8");
  const AxisLink ring = link(large, {{"data", 16}, {"expert", 16}}, "expert");
  EXPECT_DOUBLE_EQ(15 / ring.all_pairs.bytes_per_second, busiest_wire_by_hand(16, true) / kPort);
  const AxisLink line = link(small, {{"data", 8}, {"expert", 8}}, "expert");
  EXPECT_DOUBLE_EQ(7 / line.all_pairs.bytes_per_second, busiest_wire_by_hand(8, false) / kPort);
  // Two rows of eight: the middle of a row carries what its halves have for each other's columns, from both rows.
  const AxisLink rows = link(small, {{"data", 4}, {"expert", 16}}, "expert");
  EXPECT_DOUBLE_EQ(15 / rows.all_pairs.bytes_per_second, 2 * busiest_wire_by_hand(8, false) / kPort);
  EXPECT_LT(rows.all_pairs.bytes_per_second, rows.ring.bytes_per_second / 4) << "no ring is so slow";
}

TEST(AxisLinkTest, DevicesOfAChipShareItsWires) {
  hw::Slice slice = hw::parse_target("v6e:4x4");
  const Wire alone = link(slice, {{"data", 4}, {"model", 4}}, "data").ring;
  slice.chip.devices = 2;
  const std::vector<ir::MeshAxis> axes = {{"data", 4}, {"model", 8}};
  EXPECT_DOUBLE_EQ(link(slice, axes, "data").ring.bytes_per_second, alone.bytes_per_second / 2);
  EXPECT_DOUBLE_EQ(link(slice, axes, "model").ring.bytes_per_second, alone.bytes_per_second) << "it leaves a chip once";
  EXPECT_EQ(link(slice, {{"data", 16}, {"model", 2}}, "model").ring.bytes_per_second, 4 * kPort) << "inside a chip";
}

TEST(AxisLinkTest, NodesOfGpusMeetOverTheNetwork) {
  const hw::Slice slice = hw::parse_target("h100:16");
  const std::vector<ir::MeshAxis> axes = {{"data", 2}, {"model", 8}};
  const AxisLink inside = link(slice, axes, "model"), across = link(slice, axes, "data");
  EXPECT_EQ(inside.name, "nvlink");
  EXPECT_DOUBLE_EQ(inside.ring.bytes_per_second, kNvlink);
  EXPECT_DOUBLE_EQ(inside.ring.latency, 7 * kNvlinkLatency);
  EXPECT_EQ(across.name, "network");
  EXPECT_DOUBLE_EQ(across.ring.bytes_per_second, kNetwork) << "one port for one member of a node";
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "data").ring.bytes_per_second, 2 * kNetwork);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}}, "data").ring.bytes_per_second, 8 * kNetwork) << "nvlink carries 450";
}

TEST(AxisLinkTest, ATurnPaysTheNetworksLatencyAtTheBordersOfNodesAlone) {
  const AxisLink two = link(hw::parse_target("h100:16"), {{"data", 16}}, "data");
  EXPECT_DOUBLE_EQ(two.ring.latency, kNetworkLatency + 14 * kNvlinkLatency);
  const AxisLink eight = link(hw::parse_target("h100:64"), {{"data", 64}}, "data");
  EXPECT_DOUBLE_EQ(eight.ring.latency, 7 * kNetworkLatency + 56 * kNvlinkLatency);
}

TEST(AxisLinkTest, OfAllPairsWhatOtherNodesGetGoesThroughTheChipsOwnPort) {
  using enum ops::Transfer::Route;
  constexpr double kSent = 15e9;  // 1 GB to each of the others
  const AxisLink two = link(hw::parse_target("h100:16"), {{"expert", 16}}, "expert");
  EXPECT_DOUBLE_EQ(two.seconds(all_pairs, kSent), 8e9 / kNetwork + kNetworkLatency) << "8 of the others are away";
  EXPECT_GT(two.seconds(all_pairs, kSent), 4 * two.seconds(ring, kSent)) << "no ring is so slow";
  const AxisLink inside = link(hw::parse_target("h100:16"), {{"data", 2}, {"expert", 8}}, "expert");
  EXPECT_DOUBLE_EQ(inside.seconds(all_pairs, 7e9), 7e9 / kNvlink + kNvlinkLatency);
  hw::Slice fast = hw::parse_target("h100:16");
  for (hw::Link& one : fast.chip.links)
    if (one.name == "network") one.bytes_per_second = 4500e9;
  EXPECT_DOUBLE_EQ(link(fast, {{"expert", 16}}, "expert").seconds(all_pairs, kSent), 7e9 / kNvlink + kNetworkLatency)
      << "what stays at home may take longer";
}

TEST(AxisLinkTest, APeerOnAnotherNodeIsReachedThroughOnePort) {
  const AxisLink stages = link(hw::parse_target("h100:16"), {{"stage", 2}, {"data", 8}}, "stage");
  EXPECT_DOUBLE_EQ(stages.one_peer.bytes_per_second, kNetwork);
  const AxisLink context = link(hw::parse_target("h100:16"), {{"context", 16}}, "context");
  EXPECT_DOUBLE_EQ(context.one_peer.bytes_per_second, kNetwork) << "the last of a node sends to the first of the next";
  EXPECT_DOUBLE_EQ(context.one_peer.latency, kNetworkLatency);
}

TEST(AxisLinkTest, TheGroupThatSpansMostNodesIsPriced) {
  const AxisLink found = link(hw::parse_target("h100:24"), {{"data", 4}, {"model", 6}}, "model");
  EXPECT_EQ(found.name, "network") << "chips 6 to 11 are on two nodes, 0 to 5 on one";
  EXPECT_DOUBLE_EQ(found.ring.bytes_per_second, 2 * kNetwork) << "6 and 7 are alone on theirs";
}

TEST(AxisLinkTest, TheLinkInsideANodeBoundsWhatItsPortsCarry) {
  hw::Slice slice = hw::parse_target("h100:16");
  for (hw::Link& one : slice.chip.links)
    if (one.name == "network") one.bytes_per_second = 100e9;
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}}, "data").ring.bytes_per_second, kNvlink);
  std::erase_if(slice.chip.links, [](const hw::Link& one) { return one.scope == hw::LinkScope::cluster; });
  try {
    link(slice, {{"data", 16}}, "data");
    FAIL() << "two nodes and no network";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1602);
  }
}

TEST(AxisLinkTest, ChipsOfThisMachineMeetInItsMemory) {
  const hw::HostRates rates{.matrix_flops = 1e11, .bytes_per_second = 16e9, .cores = 2, .memory = int64_t{1} << 34};
  const hw::Slice slice = hw::parse_target("host:4", {.host_rates = [&] { return rates; }});
  const AxisLink found = link(slice, {{"data", 2}, {"model", 2}}, "data");
  EXPECT_EQ(found.name, "memory");
  EXPECT_DOUBLE_EQ(found.ring.bytes_per_second, 16e9 / 4 / 2) << "a chip's share, read once and written once";
}

TEST(AxisLinkTest, OneChipNeedsNoLink) {
  const AxisLink none = link(hw::parse_target("v6e:4x4"), {{"data", 16}, {"model", 1}}, "model");
  EXPECT_EQ(none.name, "");
  for (const auto route : {ops::Transfer::Route::ring, ops::Transfer::Route::all_pairs, ops::Transfer::Route::one_peer})
    EXPECT_EQ(none.seconds(route, 1e9), 0);
}

}  // namespace
}  // namespace megacpp::fit
