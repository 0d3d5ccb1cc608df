// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/hidden_sve.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace megacpp::runtime::plugins {
namespace {

/// "0x41" of the first line "CPU implementer : 0x41".
std::string value_of(std::string_view cpuinfo, std::string_view key) {
  std::istringstream lines{std::string(cpuinfo)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

struct Core {
  std::string_view implementer;
  std::string_view part;
};
/// Those LLVM takes for cores with SVE (llvm/lib/TargetParser/Host.cpp), by the numbers Linux prints.
constexpr Core kCoresWithSve[] = {
    {"0x41", "0xd40"}, {"0x41", "0xd49"}, {"0x41", "0xd4f"},  // Arm: Neoverse V1, N2, V2
    {"0x41", "0xd83"}, {"0x41", "0xd84"}, {"0x41", "0xd8e"},  // Neoverse V3AE, V3, N3
    {"0x41", "0xd46"}, {"0x41", "0xd47"}, {"0x41", "0xd48"},  // Cortex-A510, A710, X2
    {"0x41", "0xd4d"}, {"0x41", "0xd4e"}, {"0x41", "0xd80"},  // A715, X3, A520
    {"0x41", "0xd88"}, {"0x41", "0xd81"}, {"0x41", "0xd89"},  // A520AE, A720, A720AE
    {"0x41", "0xd82"}, {"0x41", "0xd85"}, {"0x41", "0xd87"},  // X4, X925, A725
    {"0x41", "0xd8a"}, {"0x41", "0xd8b"}, {"0x41", "0xd8c"},  // C1 Nano, Pro, Ultra
    {"0x41", "0xd8f"}, {"0x41", "0xd90"},                     // A320, C1 Premium
    {"0x46", "0x001"},                                        // Fujitsu A64FX
    {"0x6d", "0xd49"},                                        // Microsoft Azure Cobalt 100
};

bool core_has_sve(std::string_view implementer, std::string_view part) {
  return std::ranges::any_of(kCoresWithSve,
                             [&](const Core& core) { return core.implementer == implementer && core.part == part; });
}

bool has_word(const std::string& words, std::string_view wanted) {
  std::istringstream stream(words);
  for (std::string word; stream >> word;)
    if (word == wanted) return true;
  return false;
}

}  // namespace

bool hides_sve(std::string_view cpuinfo) {
  return core_has_sve(value_of(cpuinfo, "CPU implementer"), value_of(cpuinfo, "CPU part")) &&
         !has_word(value_of(cpuinfo, "Features"), "sve");
}

bool host_hides_sve() {
  std::ifstream file("/proc/cpuinfo");  // a file without a size, so read to its end
  return hides_sve(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace megacpp::runtime::plugins
