// SPDX-License-Identifier: Apache-2.0
// The records of all processes of a run that has failed, lined up: what every chip did last, and the first call in
// which members of a group differ. A chip that did not come to a call its group waits in is the one to look at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/flight/flight_recorder.h"

namespace megacpp::collectives {

/// The calls of one chip that its record still has, oldest first.
struct ChipFlight {
  int64_t chip = 0;
  int64_t process = 0;
  std::string host;
  std::vector<FlightRow> calls;

  double last_time() const;  // of anything it did; 0: nothing
};

/// Of all records in a folder, by chip. E1206 where there is none, E1008 for a file that is no record.
std::vector<ChipFlight> read_flights(const std::filesystem::path& folder);

/// A call of a group that not all its members came to, or that they made differently.
struct FlightDifference {
  std::string what;              // by most of those who came
  int64_t sequence = 0;          // among the calls of the group
  std::vector<int64_t> came;     // chips
  std::vector<int64_t> missing;  // members that did not come, as far as records know them
  std::vector<int64_t> others;   // chips that called something else in its place
  std::string other_what;        // the first of these
  double waited = 0;             // seconds from the first who came to the end of all records
};

/// Nothing where all members came to all calls alike: then a call was cut off while it moved.
std::optional<FlightDifference> first_difference(const std::vector<ChipFlight>& flights);

/// The end of all records, to which times are given.
double end_of(const std::vector<ChipFlight>& flights);

}  // namespace megacpp::collectives
