// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/memory_section.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

namespace megacpp::report {
namespace {

/// The colours of the names in the legends of all pictures.
std::map<std::string, std::set<std::string>> legend_colours(const std::string& page) {
  static const std::regex square("<rect class=\"(s[0-9])\"[^>]*width=\"14.0\"[^>]*><title>([^<]*)</title>");
  std::map<std::string, std::set<std::string>> colours;
  for (std::sregex_iterator found(page.begin(), page.end(), square), end; found != end; ++found)
    colours[(*found)[2]].insert((*found)[1]);
  return colours;
}

TEST(MemorySectionTest, AFamilyHasOneColourInAllPictures) {
  receipt::Memory memory;
  memory.planned = {{.chips = 1, .place = "chip 0", .planned_bytes = 100, .needed_bytes = 100}};
  for (const char* family : {"M", "", "A"})
    memory.planned[0].items.push_back({.role = "weight", .family = family, .bytes = 10});
  memory.along_step = {{.family = "M", .bytes = {500, 600}},
                       {.family = "E", .bytes = {7, 900}},
                       {.family = "", .bytes = {5, 6}},
                       {.family = "A", .bytes = {50, 60}}};
  Page page("memory");
  add_memory(page, memory);
  const auto colours = legend_colours(page.to_text());
  ASSERT_EQ(colours.size(), 7U) << "four families, padding, the sum of all, and a role";
  for (const auto& [name, own] : colours) EXPECT_EQ(own.size(), 1U) << name;
  std::set<std::string> of_families;
  for (const char* name : {"M", "E", "A", "outside blocks"}) of_families.merge(std::set(colours.at(name)));
  EXPECT_EQ(of_families.size(), 4U);
  EXPECT_FALSE(of_families.contains(*colours.at("all").begin()));
  EXPECT_NE(colours.at("all"), colours.at("padding"));
}

}  // namespace
}  // namespace megacpp::report
