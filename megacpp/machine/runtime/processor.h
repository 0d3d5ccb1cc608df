// SPDX-License-Identifier: Apache-2.0
// What Linux says of the cores of a machine.
#pragma once

#include <istream>
#include <map>
#include <string>
#include <vector>

namespace megacpp::runtime {

/// As in /proc/cpuinfo: {"CPU part": "0xd40"}; a field that is not there is an empty text.
class Processor {
 public:
  /// Of the first core.
  explicit Processor(std::istream& cpuinfo);

  const std::string& field(const std::string& name) const;
  /// "AMD EPYC 9654 96-Core Processor", "Arm implementer 0x41 part 0xd0c"; empty where nothing names it.
  std::string name() const;

 private:
  std::map<std::string, std::string> fields_;
};

/// The cores that this process may run on, ascending.
std::vector<int> available_cores();
/// As many; at least one.
int available_threads();

/// Of this machine; without fields where there is no such file.
Processor this_processor();

}  // namespace megacpp::runtime
