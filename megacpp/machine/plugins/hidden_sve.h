// SPDX-License-Identifier: Apache-2.0
// Cores that have Arm's scalable vectors under a kernel, or in a virtual machine, that keeps programs from them. LLVM
// goes by the core's name and uses them all the same (llvm/llvm-project#130509), and so do the programs of XLA's CPU
// plugin, which then end at an illegal instruction. Only without optimization does XLA write none (flags.h takes care
// of it).
#pragma once

#include "megacpp/machine/runtime/processor.h"

namespace megacpp::runtime::plugins {

/// False for machines that are no Arm.
bool hides_sve(const Processor& processor);

}  // namespace megacpp::runtime::plugins
