// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/lineage.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/run/lineage/locked_plugin.h"

namespace megacpp::lineage {
namespace {

TEST(LineageTest, ReadsBackAsWritten) {
  const Lineage lineage{.lock_file = "recipes/megacpp.lock",
                        .unread = "",
                        .documented = {{"sqlite", "3.39.0"}, {"cores", "8"}},
                        .live = {{"sqlite", "3.40.1"}, {"cores", "8"}},
                        .drifts = {{"sqlite", "3.39.0", "3.40.1", "bring it back"}}};
  EXPECT_EQ(lineage_of(to_json(lineage)), lineage);
  EXPECT_EQ(lineage_of(to_json({})), Lineage{});
  EXPECT_EQ(to_text(lineage.drifts[0]), "sqlite 3.40.1, documented 3.39.0: bring it back");
}

TEST(LineageTest, WhatIsOfAnotherKindStaysEmpty) {
  const base::Json json = {{"lock_file", 3}, {"documented", "all"}, {"live", {1, 2}}};
  const Lineage lineage = lineage_of(json);
  EXPECT_EQ(lineage.lock_file, "");
  EXPECT_TRUE(lineage.documented.empty());
  EXPECT_EQ(lineage.live, Facts(2));
}

TEST(LineageTest, FactsAreFoundByName) {
  const Facts facts = {{"sqlite", "3.39.0"}};
  ASSERT_NE(find_value(facts, "sqlite"), nullptr);
  EXPECT_EQ(*find_value(facts, "sqlite"), "3.39.0");
  EXPECT_EQ(find_value(facts, "sql"), nullptr);
}

TEST(LockedPluginTest, FactsAboutAPluginAreReadAsTheyAreWritten) {
  const LockedPlugin written{.package = "libtpu", .version = "0.0.48.1", .build = "77aa", .hash = "12"};
  const Facts facts = {{plugin_fact("tpu"), plugin_version_text(written)},
                       {plugin_fact("tpu", kBuildPart), "77aa"},
                       {plugin_fact("tpu", kHashPart), "12"},
                       {plugin_fact("cuda"), kNone},
                       {plugin_fact("cpu"), "a file by MEGACPP_PJRT_CPU"},
                       {plugin_fact("cpu", kBuildPart), "88bb"}};
  EXPECT_EQ(facts[0].name, "plugin.tpu");
  EXPECT_EQ(facts[1].name, "plugin.tpu.build");
  const std::optional<LockedPlugin> tpu = locked_plugin(facts, "tpu");
  ASSERT_TRUE(tpu.has_value());
  EXPECT_EQ(tpu->package, "libtpu");
  EXPECT_EQ(tpu->version, "0.0.48.1");
  EXPECT_EQ(tpu->build, "77aa");
  EXPECT_EQ(tpu->hash, "12");
  EXPECT_FALSE(locked_plugin(facts, "cuda").has_value());
  const std::optional<LockedPlugin> file = locked_plugin(facts, "cpu");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->package, "");
  EXPECT_EQ(file->build, "88bb");
}

TEST(LockedPluginTest, APackageOfUnknownVersionPinsNone) {
  const Facts facts = {{plugin_fact("cpu"), plugin_version_text({.package = "xla-cpu-pjrt"})}};
  const std::optional<LockedPlugin> plugin = locked_plugin(facts, "cpu");
  ASSERT_TRUE(plugin.has_value());
  EXPECT_EQ(plugin->package, "xla-cpu-pjrt");
  EXPECT_EQ(plugin->version, "");
}

}  // namespace
}  // namespace megacpp::lineage
