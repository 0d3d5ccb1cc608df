// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/flight/flight_report.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"

namespace megacpp::collectives {
namespace {

[[noreturn]] void refuse_record(const std::filesystem::path& file, const std::string& got) {
  base::raise(base::Code::E1008, {.where = file.string(),
                                  .got = got,
                                  .wanted = "the flight record of a process of this build",
                                  .next = "delete the file, and look at the others"});
}

template <size_t kSize>
std::string text_in(const char (&bytes)[kSize]) {
  return {bytes, ::strnlen(bytes, kSize)};
}

FlightHead head_of(const std::filesystem::path& file, std::string_view bytes) {
  FlightHead head;
  if (bytes.size() < sizeof(head)) refuse_record(file, std::to_string(bytes.size()) + " bytes");
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (text_in(head.format) != kFlightFormat) refuse_record(file, "no flight record");
  const size_t chip_bytes = sizeof(int64_t) + static_cast<size_t>(kFlightCalls) * sizeof(FlightRow);
  const size_t most = (bytes.size() - sizeof(head)) / chip_bytes;
  if (head.rows != kFlightCalls || head.chips < 1 || static_cast<size_t>(head.chips) > most)
    refuse_record(file, "a record that is cut off");
  return head;
}

void add_record(const std::filesystem::path& file, std::vector<ChipFlight>& flights) {
  const std::string bytes = base::read_file(file);
  const FlightHead head = head_of(file, bytes);
  const char* const numbers = bytes.data() + sizeof(head);
  const char* const rows = numbers + static_cast<size_t>(head.chips) * sizeof(int64_t);
  for (int64_t index = 0; index < head.chips; ++index) {
    ChipFlight flight{.chip = -1, .process = head.process, .host = text_in(head.host), .calls = {}};
    std::memcpy(&flight.chip, numbers + static_cast<size_t>(index) * sizeof(int64_t), sizeof(int64_t));
    if (flight.chip < 0) continue;  // it had not made its first group
    for (int64_t row = 0; row < kFlightCalls; ++row) {
      FlightRow call;
      std::memcpy(&call, rows + static_cast<size_t>(index * kFlightCalls + row) * sizeof(call), sizeof(call));
      call.what[sizeof(call.what) - 1] = '\0';
      if (call.number > 0) flight.calls.push_back(call);
    }
    std::ranges::sort(flight.calls, {}, &FlightRow::number);
    flights.push_back(std::move(flight));
  }
}

/// One call of one group, as its members have it.
struct Meeting {
  std::map<int64_t, const FlightRow*> calls;  // by chip
  double began = 0;
  bool is_open = false;  // some member has not finished it
};
using Meetings = std::map<std::pair<uint64_t, int64_t>, Meeting>;  // by group and sequence

Meetings meetings_of(const std::vector<ChipFlight>& flights) {
  Meetings meetings;
  for (const ChipFlight& flight : flights)
    for (const FlightRow& call : flight.calls) {
      Meeting& meeting = meetings[{call.group, call.sequence}];
      meeting.began = meeting.calls.empty() ? call.started : std::min(meeting.began, call.started);
      meeting.calls[flight.chip] = &call;
      meeting.is_open |= call.finished == 0;
    }
  return meetings;
}

// A send and its receive are called differently.
bool is_message(const FlightRow& call) {
  const std::string_view what = call.what;
  return what.starts_with("send ") || what.starts_with("recv ");
}

// Chips whose records have any call of the group.
std::vector<int64_t> known_members(const std::vector<ChipFlight>& flights, uint64_t group) {
  std::vector<int64_t> chips;
  for (const ChipFlight& flight : flights)
    if (std::ranges::find(flight.calls, group, &FlightRow::group) != flight.calls.end()) chips.push_back(flight.chip);
  return chips;
}

std::string usual_call(const Meeting& meeting) {
  std::map<std::string, int64_t> counts;
  for (const auto& [chip, call] : meeting.calls) ++counts[call->what];
  return std::ranges::max_element(counts, {}, [](const auto& counted) { return counted.second; })->first;
}

FlightDifference difference_in(const Meeting& meeting, int64_t sequence, const std::vector<int64_t>& members) {
  FlightDifference found{.what = usual_call(meeting),
                         .sequence = sequence,
                         .came = {},
                         .missing = {},
                         .others = {},
                         .other_what = {},
                         .waited = 0};
  for (const int64_t chip : members) {
    const auto call = meeting.calls.find(chip);
    if (call == meeting.calls.end()) {
      found.missing.push_back(chip);
    } else if (found.what == call->second->what || is_message(*call->second)) {
      found.came.push_back(chip);
    } else {
      if (found.others.empty()) found.other_what = call->second->what;
      found.others.push_back(chip);
    }
  }
  return found;
}

}  // namespace

double ChipFlight::last_time() const {
  double last = 0;
  for (const FlightRow& call : calls) last = std::max({last, call.started, call.finished});
  return last;
}

std::vector<ChipFlight> read_flights(const std::filesystem::path& folder) {
  std::vector<ChipFlight> flights;
  for (const std::filesystem::path& file : base::list_folder(folder)) add_record(file, flights);
  MEGACPP_REQUIRE(!flights.empty(), E1206,
                  {.where = folder.string(),
                   .got = "no flight record",
                   .wanted = "the folder of a run over several chips that has failed, or is running",
                   .next = "a run that ended in order leaves none; see: megacpp runs list"});
  std::ranges::sort(flights, {}, &ChipFlight::chip);
  return flights;
}

double end_of(const std::vector<ChipFlight>& flights) {
  double end = 0;
  for (const ChipFlight& flight : flights) end = std::max(end, flight.last_time());
  return end;
}

std::optional<FlightDifference> first_difference(const std::vector<ChipFlight>& flights) {
  const Meetings meetings = meetings_of(flights);
  std::optional<FlightDifference> first;
  double began = 0;
  for (const auto& [key, meeting] : meetings) {
    // What all have finished is settled; members whose rows are overwritten are none that did not come.
    if (!meeting.is_open || (first && meeting.began >= began)) continue;
    FlightDifference found = difference_in(meeting, key.second, known_members(flights, key.first));
    const auto members = meeting.calls.begin()->second->members;
    const bool all_came = static_cast<int64_t>(meeting.calls.size()) == members;
    if (all_came && found.others.empty()) continue;
    began = meeting.began;
    found.waited = end_of(flights) - began;
    first = std::move(found);
  }
  return first;
}

}  // namespace megacpp::collectives
