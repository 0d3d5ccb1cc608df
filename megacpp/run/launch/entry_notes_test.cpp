// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/entry_notes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "megacpp/machine/runtime/processor.h"
#include "megacpp/run/launch/build.h"

namespace megacpp::launch {
namespace {

catalog::Signature of_plugin(const std::string& platform) {
  return {.build = {.code_version = code_version(), .platform = platform}};
}

// A plugin is a large file that is read whole where it has no build id.
TEST(EntryNotesTest, EveryPluginIsLookedAtOnce) {
  int looks = 0;
  std::vector<runtime::Platform> platforms;
  for (const char* name : {"cpu", "tpu"})
    platforms.push_back({.name = name, .identity = [&looks, name] {
                           ++looks;
                           return fmt::format("plugin {} 1.0 (build aa)", name);
                         }});
  const ThisBuild here(platforms);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(here.wrote(of_plugin("plugin cpu 1.0 (build aa)")));
    EXPECT_TRUE(here.notes_of({.signature = of_plugin("plugin cpu 1.0 (build aa)")}).empty());
  }
  EXPECT_EQ(looks, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(here.wrote(of_plugin("plugin cpu 1.0 (build bb)")));
    EXPECT_FALSE(here.wrote(of_plugin("plugin tpu 2.0 (build cc)")));
    EXPECT_TRUE(here.wrote(of_plugin("plugin tpu 1.0 (build aa)")));
  }
  EXPECT_EQ(looks, 2);
}

TEST(EntryNotesTest, HardwareThatOnlyItsDevicesKnowIsNamedAsTheirPlatform) {
  const ThisBuild here({{.name = "strange", .identity = [] { return std::string("plugin strange"); }}});
  catalog::Signature signature = of_plugin("");
  signature.hardware = "strange:2";
  EXPECT_TRUE(here.notes_of({.signature = signature}).empty());
  signature.hardware = "stranger:2";
  EXPECT_EQ(here.notes_of({.signature = signature}).size(), 1U);
}

TEST(EntryNotesTest, AnotherProcessorIsAnotherMachine) {
  const ThisBuild here;
  catalog::Signature signature = of_plugin("");
  signature.build.processor = runtime::this_processor().name();
  signature.build.threads = 3;
  EXPECT_TRUE(here.wrote(signature));
  signature.build.processor += " II";
  EXPECT_FALSE(here.wrote(signature));
  const std::vector<std::string> notes = here.notes_of({.signature = signature});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("another build or machine"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("3 threads a chip of "), std::string::npos) << notes[0];
}

}  // namespace
}  // namespace megacpp::launch
