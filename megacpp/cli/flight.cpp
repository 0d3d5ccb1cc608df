// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/output.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/machine/collectives/flight/flight_report.h"
#include "megacpp/run/launch/run_directory.h"

namespace megacpp::cli {
namespace {

using collectives::ChipFlight;
using collectives::FlightDifference;
using collectives::FlightRow;

struct FlightFlags {
  std::string run;
  int64_t calls = 1;
  bool before = false;
  bool json = false;
};

// The newest calls, newest first.
std::vector<FlightRow> newest(const ChipFlight& flight, int64_t count) {
  std::vector<FlightRow> rows(flight.calls.rbegin(), flight.calls.rend());
  if (static_cast<int64_t>(rows.size()) > count) rows.resize(static_cast<size_t>(count));
  return rows;
}

std::string state_text(const FlightRow& call, double end) {
  return call.finished == 0 ? fmt::format("in flight for {:.3f} s", end - call.started)
                            : fmt::format("finished {:.3f} s before the end", end - call.finished);
}

std::string chips_list(const std::vector<int64_t>& chips, const std::vector<ChipFlight>& flights) {
  std::string text;
  for (const int64_t chip : chips) {
    const auto flight = std::ranges::find(flights, chip, &ChipFlight::chip);
    text += fmt::format("{}chip {} (process {} on {})", text.empty() ? "" : ", ", chip, flight->process, flight->host);
  }
  return text;
}

std::string difference_text(const FlightDifference& first, const std::vector<ChipFlight>& flights) {
  std::string text;
  // Names of hosts and calls are as the files have them.
  const auto add = [&text](const std::string& line) { text += base::printable_in_line(line) + "\n"; };
  add(fmt::format("first difference: call {} of its group, {}, {:.3f} s before the end", first.sequence, first.what,
                  first.waited));
  add(fmt::format("  came      {}", chips_list(first.came, flights)));
  if (!first.missing.empty()) add(fmt::format("  missing   {}", chips_list(first.missing, flights)));
  if (!first.others.empty())
    add(fmt::format("  instead   {}: {}", chips_list(first.others, flights), first.other_what));
  if (first.missing.empty() && first.others.empty()) add("  missing   members whose record is not here");
  return text;
}

std::string flight_text(const std::vector<ChipFlight>& flights, int64_t calls) {
  const double end = collectives::end_of(flights);
  TextTable table({">chip", ">process", "host", ">call", "what", "state"});
  for (const ChipFlight& flight : flights) {
    if (flight.calls.empty())
      table.add({std::to_string(flight.chip), std::to_string(flight.process), flight.host, "0", "", "no call yet"});
    for (const FlightRow& call : newest(flight, calls))
      table.add({std::to_string(flight.chip), std::to_string(flight.process), flight.host, std::to_string(call.number),
                 call.what, state_text(call, end)});
  }
  const auto first = collectives::first_difference(flights);
  return table.to_text() + (first ? difference_text(*first, flights)
                                  : "no difference: every call that is in flight has all its members\n");
}

Json flight_json(const std::vector<ChipFlight>& flights, int64_t calls) {
  Json chips = Json::array();
  for (const ChipFlight& flight : flights) {
    Json rows = Json::array();
    for (const FlightRow& call : newest(flight, calls))
      rows.push_back({{"number", call.number},
                      {"sequence", call.sequence},
                      {"what", std::string(call.what)},
                      {"started", call.started},
                      {"finished", call.finished == 0 ? Json() : Json(call.finished)}});
    chips.push_back({{"chip", flight.chip}, {"process", flight.process}, {"host", flight.host}, {"calls", rows}});
  }
  Json difference;
  if (const auto first = collectives::first_difference(flights))
    difference = {{"what", first->what},       {"sequence", first->sequence}, {"came", first->came},
                  {"missing", first->missing}, {"others", first->others},     {"other_what", first->other_what},
                  {"waited", first->waited}};
  return {{"end", collectives::end_of(flights)}, {"chips", chips}, {"first_difference", difference}};
}

int show_flight(const FlightFlags& flags) {
  const std::filesystem::path run = launch::find_run(flags.run);
  const std::vector<ChipFlight> flights =
      collectives::read_flights(run / (flags.before ? collectives::kFlightFolderBefore : collectives::kFlightFolder));
  if (flags.json)
    print_json(flight_json(flights, flags.calls));
  else
    write_output(flight_text(flights, flags.calls));
  return 0;
}

Command flight_show_word() {
  return {.name = "show",
          .summary = "the last calls of every chip, lined up, and the first in which they differ",
          .example = "megacpp flight show latest\n  megacpp flight show runs/nam52-tiny-20261116T214512Z --calls 8",
          .declare = [](CLI::App& app) -> std::function<int()> {
            auto flags = std::make_shared<FlightFlags>();
            app.add_option("run", flags->run, "a run directory, or latest")->required()->type_name("DIR");
            declare_number(app,
                           {.name = "--calls",
                            .range = schema::between(1, static_cast<double>(collectives::kFlightCalls)),
                            .help = "of each chip, the newest first"},
                           flags->calls);
            app.add_flag("--before", flags->before, "of the attempt before the last: a run that was started again");
            app.add_flag("--json", flags->json, "print them as JSON");
            return [flags] { return show_flight(*flags); };
          }};
}

}  // namespace

Command flight_command() {
  return {.name = "flight",
          .summary = "what the chips of a run did last, when it failed",
          .example = "megacpp flight show latest",
          .declare = [](CLI::App& app) { return declare_words(app, {flight_show_word()}); }};
}

}  // namespace megacpp::cli
