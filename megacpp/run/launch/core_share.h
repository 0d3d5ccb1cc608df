// SPDX-License-Identifier: Apache-2.0
// How many threads each process of a machine may use, where a launcher has started several there: cores that several
// may run on are divided among them, cores that a launcher has bound to one are its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megacpp::launch {

struct CoreUser {
  std::string machine;
  std::vector<int64_t> cores;  // it may run on
};

/// The threads of one of the users; at least one.
int core_share(std::span<const CoreUser> users, size_t own);

}  // namespace megacpp::launch
