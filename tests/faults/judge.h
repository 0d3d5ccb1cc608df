// SPDX-License-Identifier: Apache-2.0
// What a command may do under a fault, and what must be true afterwards. Each breach is a sentence.
#pragma once

#include <string>
#include <vector>

#include "tests/faults/command.h"
#include "tests/faults/fault.h"
#include "tests/support/error_contract.h"

namespace megacpp::faults {

/// It ends in time, keeps the error contract as far as the fault lets one see it, and says it where its output is lost.
std::vector<std::string> judge_command(const Injection& injection, const Command& command,
                                       testing_support::Ending ending);

/// `catalog list --json`, once the command has ended: it reads the catalog, and the entry that was there before is
/// there.
std::vector<std::string> judge_catalog(testing_support::Ending ending);

}  // namespace megacpp::faults
