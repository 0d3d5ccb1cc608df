// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/processor.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

namespace megacpp::runtime {

Processor::Processor(std::istream& cpuinfo) {
  constexpr const char* kBlank = " \t";
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0) continue;
    const size_t name_end = line.find_last_not_of(kBlank, colon - 1), value = line.find_first_not_of(kBlank, colon + 1);
    if (value != std::string::npos) fields_[line.substr(0, name_end + 1)] = line.substr(value);
  }
}

const std::string& Processor::field(const std::string& name) const {
  static const std::string kNone;
  const auto found = fields_.find(name);
  return found == fields_.end() ? kNone : found->second;
}

std::string Processor::name() const {
  if (const std::string& model = field("model name"); !model.empty()) return model;
  const std::string& part = field("CPU part");
  return part.empty() ? "" : "Arm implementer " + field("CPU implementer") + " part " + part;
}

std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

int available_threads() { return std::max(1, static_cast<int>(available_cores().size())); }

Processor this_processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return Processor(cpuinfo);
}

}  // namespace megacpp::runtime
