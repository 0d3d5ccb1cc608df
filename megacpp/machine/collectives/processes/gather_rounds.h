// SPDX-License-Identifier: Apache-2.0
// How processes tell each other what each has said: round by round a process passes on what it has to one that is twice
// as far as before. Each sends and receives one letter a round, and after the last has what all have said, from its own
// number downwards. Arithmetic alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace megacpp::collectives {

struct GatherRound {
  int64_t distance = 1;  // a letter goes to the process with a number higher by so much, and comes from one lower by it
  int64_t blocks = 1;    // statements in the letter: the first that the sender has
};

inline std::vector<GatherRound> gather_rounds(int64_t processes) {
  std::vector<GatherRound> rounds;
  for (int64_t distance = 1; distance < processes; distance *= 2)
    rounds.push_back({.distance = distance, .blocks = std::min(distance, processes - distance)});
  return rounds;
}

}  // namespace megacpp::collectives
