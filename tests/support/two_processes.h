// SPDX-License-Identifier: Apache-2.0
// Two processes of a run that compare what they were given.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/world.h"
#include "tests/support/process_worlds.h"

namespace megacpp::testing_support {

/// Why the second one differs from the first, as its E3103 has it: "train.batch 4". Empty: they agree.
inline std::string difference_between(const std::vector<collectives::Field>& first,
                                      const std::vector<collectives::Field>& second) {
  constexpr const char* kSecond = "process 1 (chips 1 to 1): ";
  Processes processes(2);
  std::vector<std::string> differences(2);
  processes.run([&](size_t process) {
    const auto world = processes.transport(process).make({.chips = 2, .wait_limit = std::chrono::seconds(60)});
    try {
      world->agree_same("command", process == 0 ? first : second);
    } catch (const base::Error& error) {
      if (error.code() != base::Code::E3103) throw;
      differences[process] = error.problem().got.substr(std::string(kSecond).size());
    }
  });
  MEGACPP_CHECK(differences[0] == differences[1]) << "processes end with other words";
  return differences[0];
}

}  // namespace megacpp::testing_support
