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

/// By the numbers Linux prints (arch/arm64/include/asm/cputype.h).
bool core_has_sve(std::string_view implementer, std::string_view part) {
  if (implementer == "0x46") return part == "0x001";  // Fujitsu A64FX
  if (implementer != "0x41") return false;            // Arm
  constexpr std::string_view kParts[] = {
      "0xd40", "0xd49", "0xd4f", "0xd8e", "0xd83", "0xd84",           // Neoverse V1, N2, V2, N3, V3AE, V3
      "0xd46", "0xd47", "0xd48", "0xd4d", "0xd4e",                    // Cortex A510, A710, X2, A715, X3
      "0xd80", "0xd81", "0xd82", "0xd85", "0xd87", "0xd8a", "0xd8b",  // Cortex A520, A720, X4, X925, A725, C1
  };
  return std::ranges::find(kParts, part) != std::end(kParts);
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
