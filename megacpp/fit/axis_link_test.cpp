// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/axis_link.h"

#include <gtest/gtest.h>

#include "megacpp/base/error.h"

namespace megacpp::fit {
namespace {

AxisLink link(const hw::Slice& slice, const std::vector<ir::MeshAxis>& axes, const char* along) {
  const ir::Mesh mesh(axes);
  return link_along(slice, mesh, ir::parse_axes(along, mesh));
}

// A v6e has four ports of 100 GB/s.
constexpr double kPort = 100e9, kHop = 0.5e-6;

TEST(AxisLinkTest, SixteenChipsOfATorusCloseToARing) {
  const hw::Slice slice = hw::parse_target("v6e:16x16");
  for (const char* axis : {"data", "model"}) {
    const AxisLink found = link(slice, {{"data", 16}, {"model", 16}}, axis);
    EXPECT_EQ(found.name, "ici");
    EXPECT_DOUBLE_EQ(found.bytes_per_second, 2 * kPort) << axis;
    EXPECT_DOUBLE_EQ(found.latency, kHop);
  }
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}, {"model", 16}}, "data+model").bytes_per_second, 4 * kPort);
}

TEST(AxisLinkTest, GroupsThatLieBetweenEachOtherShareTheWires) {
  const hw::Slice slice = hw::parse_target("v6e:16x16");
  const std::vector<ir::MeshAxis> axes = {{"data", 4}, {"model", 64}};
  const AxisLink apart = link(slice, axes, "data");  // every fourth row
  EXPECT_DOUBLE_EQ(apart.bytes_per_second, 2 * kPort / 4);
  EXPECT_DOUBLE_EQ(apart.latency, 4 * kHop);
  EXPECT_DOUBLE_EQ(link(slice, axes, "model").bytes_per_second, (2 + 1) * kPort) << "a ring of 16, and 4 rows in line";
}

TEST(AxisLinkTest, FourChipsOfATorusAreALine) {
  const hw::Slice slice = hw::parse_target("v6e:4x4");
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "model").bytes_per_second, kPort);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "data").bytes_per_second, kPort);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}}, "data").bytes_per_second, 2 * kPort);
}

TEST(AxisLinkTest, NodesOfGpusMeetOverTheNetwork) {
  const hw::Slice slice = hw::parse_target("h100:16");
  const std::vector<ir::MeshAxis> axes = {{"data", 2}, {"model", 8}};
  const AxisLink inside = link(slice, axes, "model"), across = link(slice, axes, "data");
  EXPECT_EQ(inside.name, "nvlink");
  EXPECT_DOUBLE_EQ(inside.bytes_per_second, 450e9);
  EXPECT_EQ(across.name, "network");
  EXPECT_DOUBLE_EQ(across.bytes_per_second, 50e9) << "one port for one member of a node";
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 4}, {"model", 4}}, "data").bytes_per_second, 2 * 50e9);
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}}, "data").bytes_per_second, 8 * 50e9) << "nvlink carries 450";
}

TEST(AxisLinkTest, TheLinkInsideANodeBoundsWhatItsPortsCarry) {
  hw::Slice slice = hw::parse_target("h100:16");
  for (hw::Link& one : slice.chip.links)
    if (one.name == "network") one.bytes_per_second = 100e9;
  EXPECT_DOUBLE_EQ(link(slice, {{"data", 16}}, "data").bytes_per_second, 450e9);
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
  EXPECT_DOUBLE_EQ(found.bytes_per_second, 16e9 / 4 / 2) << "a chip's share, read once and written once";
}

TEST(AxisLinkTest, OneChipNeedsNoLink) {
  const AxisLink none = link(hw::parse_target("v6e:4x4"), {{"data", 16}, {"model", 1}}, "model");
  EXPECT_EQ(none.name, "");
  EXPECT_EQ(none.bytes_per_second, 0);
}

}  // namespace
}  // namespace megacpp::fit
