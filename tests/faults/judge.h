// SPDX-License-Identifier: Apache-2.0
// What a command may do under a fault, and what must be true afterwards. Each breach is a sentence.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/faults/command.h"
#include "tests/faults/fault.h"
#include "tests/support/error_contract.h"

namespace megacpp::faults {

/// It ends in time, keeps the error contract as far as the fault lets one see it, and says it where its output is lost.
std::vector<std::string> judge_command(const Injection& injection, const Command& command,
                                       testing_support::Ending ending);

/// Whether a command that nothing else disturbed was asked once to stop: signals within a second are one request.
bool is_one_request(const Injection& injection, std::chrono::milliseconds apart);

/// What a training has left in its folder that was asked once to stop, or not at all: once its steps have begun, its
/// receipt has their end, and there is a checkpoint of the last of them. Nothing where it has not begun.
std::vector<std::string> judge_run(const std::filesystem::path& run);

/// `catalog list --json`, once the command has ended: it reads the catalog, and the entry that was there before is
/// there.
std::vector<std::string> judge_catalog(testing_support::Ending ending);

}  // namespace megacpp::faults
