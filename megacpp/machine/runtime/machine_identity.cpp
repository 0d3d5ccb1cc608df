// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/machine_identity.h"

#include <sys/utsname.h>

#include <fstream>

#include "megacpp/machine/runtime/fault_injection.h"

namespace megacpp::runtime {

std::string machine_identity() {
  std::string boot = "no boot id";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot + " " + host_name();
}

std::string machine_architecture() {
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "not known";
}

}  // namespace megacpp::runtime
