// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/entry_notes.h"

#include <gtest/gtest.h>

#include "megacpp/launch/build.h"
#include "megacpp/runtime/processor.h"

namespace megacpp::launch {
namespace {

catalog::Signature of_plugin(const std::string& platform) {
  return {.build = {.code_version = code_version(), .platform = platform}};
}

// A plugin is a large file that is read whole where it has no build id.
TEST(EntryNotesTest, EveryPluginIsLookedAtOnce) {
  int looks = 0;
  const ThisBuild here([&looks](const std::string& kind) {
    ++looks;
    return "plugin " + kind + " 1.0 (build aa)";
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(here.wrote(of_plugin("plugin cpu 1.0 (build aa)")));
    EXPECT_FALSE(here.wrote(of_plugin("plugin cpu 1.0 (build bb)")));
    EXPECT_TRUE(here.notes_of({.signature = of_plugin("plugin cpu 1.0 (build aa)")}).empty());
  }
  EXPECT_EQ(looks, 1);
  EXPECT_FALSE(here.wrote(of_plugin("plugin tpu 2.0 (build cc)")));
  EXPECT_EQ(looks, 2);
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
