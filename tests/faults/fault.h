// SPDX-License-Identifier: Apache-2.0
// The table of faults. A fault draws its numbers from the case's own random numbers, so that (seed, case) says all of
// it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace megacpp::faults {

/// The same on every machine.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t number) : engine_(seed * 1'000'003 + number) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

/// A tmpfs that holds the catalog and what the command writes.
struct Disk {
  int64_t free_kib = 0;  // beside the catalog that the case begins with
  bool read_only = false;
};

/// A file that the command may read becomes shorter while it runs.
struct Shortening {
  int64_t file = 0;     // by its number among all of the case's own copy, which it has of the shared folder
  int64_t percent = 0;  // that is left
};

/// What becomes of the command's stdout.
enum class Stream { seen, unseen, lost };  // unseen: what of it arrives is not known; lost: nothing arrives

/// What a fault does to a command.
struct Injection {
  std::string before = "exec";    // shell in front of it: limits, variables
  std::string after = {};         // behind it: redirections
  std::optional<Disk> disk = {};  // mounted over the case's folder, for the command and for what is read afterwards
  std::vector<int> signals = {};  // sent one behind the other
  std::optional<Shortening> shortening = {};
  std::chrono::milliseconds pause{0};  // from main() to the first of these
  std::chrono::milliseconds gap{0};    // between two signals
  int launches = 1;                    // of the same command at once
  Stream stdout_is = Stream::seen;
  bool hides_stderr = false;
};

struct Fault {
  std::string name;
  std::string summary;
  Injection (*inject)(Draw& draw);
  /// Whether this machine allows it; faults that it does not are left out, and named. Called by the thread that starts
  /// all others, before it does.
  bool (*is_possible)() = [] { return true; };
};

const std::vector<Fault>& all_faults();

}  // namespace megacpp::faults
