// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/hidden_sve.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

namespace megacpp::runtime::plugins {
namespace {

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

bool hides_sve(const Processor& processor) {
  return core_has_sve(processor.field("CPU implementer"), processor.field("CPU part")) &&
         !has_word(processor.field("Features"), "sve");
}

}  // namespace megacpp::runtime::plugins
