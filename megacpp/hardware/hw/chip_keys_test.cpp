// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/chip_keys.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/hw/chip_library.h"

namespace megacpp::hw {
namespace {

using schema::Kind;

template <typename Keys>
void keys_are_whole(const Keys& keys) {
  std::set<std::string> paths;
  for (const auto& key : keys) {
    SCOPED_TRACE(key.path);
    EXPECT_TRUE(paths.insert(key.path).second) << "listed twice";
    EXPECT_FALSE(key.doc.empty());
    const bool is_number = key.kind == Kind::integer || key.kind == Kind::number || key.kind == Kind::bytes;
    EXPECT_TRUE(key.is_fact || !is_number) << "every number needs a source";
  }
}

TEST(ChipKeysTest, EveryKeyIsWholeAndEveryNumberAFact) {
  keys_are_whole(chip_keys());
  keys_are_whole(link_keys());
}

TEST(ChipKeysTest, SectionsAreTheBeginningsOfPaths) {
  EXPECT_EQ(words_of("tiles"), (std::vector<std::string>{"lanes", "rows", "tall_rows"}));
  EXPECT_EQ(words_of("tiles.rows"), (std::vector<std::string>{"8", "16", "32"}));
  EXPECT_TRUE(words_of("tiles.lanes").empty());
  EXPECT_TRUE(words_of("til").empty());
  EXPECT_EQ(find_chip_key("tiles"), nullptr);
  EXPECT_EQ(find_chip_key("memory.usable")->kind, Kind::bytes);
}

TEST(ChipKeysTest, EveryFactOfABuiltInChipIsAKey) {
  std::set<std::string> known;
  for (const FileKey& key : chip_keys()) known.insert(key.path);
  for (const ListedChip& listed : all_chips(ChipPlaces{})) {
    ASSERT_TRUE(listed.chip.has_value()) << listed.name;
    for (const Fact& fact : listed.chip->facts)
      EXPECT_TRUE(known.contains(fact.name) || fact.name.starts_with("links.")) << listed.name << " " << fact.name;
  }
}

TEST(ChipKeysTest, TheDocumentationHasTheTable) {
  const std::string page = base::read_file(std::filesystem::path(MEGACPP_SOURCE_DIR) / "docs/hardware.md");
  EXPECT_NE(page.find(key_table()), std::string::npos) << key_table();
}

}  // namespace
}  // namespace megacpp::hw
