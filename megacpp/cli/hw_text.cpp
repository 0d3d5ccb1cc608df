// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/hw_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/hw/chip_fields.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::cli {
namespace {

using memory::human_bytes;

/// Of a number that is above 0 where it is known.
Json measured_or_null(double number) { return number > 0 ? Json(number) : Json(); }

std::string giga(double per_second) { return fmt::format("{:.4g}", per_second / 1e9); }

std::string slices_text(const hw::Chip& chip) {
  const hw::SliceRules& rules = chip.slices;
  if (chip.is_virtual()) return "host:N, N virtual chips";
  if (rules.shape == hw::SliceShape::nodes) return fmt::format("nodes of {}", rules.host[0]);
  std::vector<std::string> texts;
  for (const hw::Sizes& slice : rules.valid) texts.push_back(hw::to_text(slice));
  if (rules.block > 0) texts.push_back(fmt::format("cubes of {} up to {} chips", rules.block, rules.largest));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string peak_text(const hw::Chip& chip) {
  const std::optional<double> peak = chip.peak("bf16");
  return peak ? fmt::format("{:.4g}", *peak / 1e12) : "-";
}

std::string link_text(const hw::Chip& chip) {
  const hw::Link* link = chip.fastest_link();
  return link == nullptr ? "-" : link->name + " " + giga(link->bytes_per_second);
}

std::string slice_text(const hw::Slice& slice) {
  std::string text =
      fmt::format("\n{}: {}, {}, {}\n", base::printable_in_line(slice.name), base::counted(slice.chips(), "chip"),
                  base::counted(slice.devices(), "device"), base::counted(slice.hosts(), "host"));
  for (size_t i = 0; i < slice.sizes.size(); ++i)
    text += fmt::format("dimension {}: {}, {}, {}\n", i, base::counted(slice.sizes[i], "chip"),
                        slice.wraps(i) ? "a ring" : "a line", base::counted(slice.links_along(i), "link"));
  return text;
}

std::vector<std::string> chip_cells(const hw::Chip& chip) {
  return {chip.name,
          human_bytes(chip.nominal_bytes),
          std::to_string(chip.usable_bytes),
          peak_text(chip),
          giga(chip.memory_bytes_per_second),
          link_text(chip),
          slices_text(chip),
          chip.origin};
}

std::vector<std::string> error_cells_of(const hw::ListedChip& broken) {
  const base::Error& error = *broken.why_not;
  return {broken.name,
          "-",
          "-",
          "-",
          "-",
          "-",
          "-",
          fmt::format("error {} {}: {}", base::code_name(error.code()), error.problem().where, error.problem().got)};
}

Json rows_json(const std::map<int, int64_t>& rows) {
  Json json = Json::object();
  for (const auto& [bits, count] : rows) json[std::to_string(bits)] = count;
  return json;
}

}  // namespace

std::string chip_table(const std::vector<hw::ListedChip>& chips) {
  TextTable table({"chip", ">memory", ">usable bytes", ">bf16 TFLOP/s", ">memory GB/s", "link GB/s", "slices", "from"});
  for (const hw::ListedChip& listed : chips) table.add(listed.chip ? chip_cells(*listed.chip) : error_cells_of(listed));
  return table.to_text();
}

std::string chip_text(const hw::Chip& chip, const std::optional<hw::Slice>& slice) {
  std::string text;
  const auto add = [&text](const std::string& line) { text += base::printable_in_line(line) + "\n"; };
  add(fmt::format("{}: {} ({})", chip.name, chip.title, chip.origin));
  if (!chip.aliases.empty()) add(fmt::format("also {}", fmt::join(chip.aliases, ", ")));
  if (!chip.device_names.empty()) add(fmt::format("devices call themselves {}", fmt::join(chip.device_names, ", ")));
  std::vector<std::string> sources;
  TextTable table({"number", "value", ">source"});
  for (const hw::Fact& fact : chip.facts) {
    const std::string source = fact.source + (fact.date.empty() ? "" : ", " + fact.date);
    const auto found = std::find(sources.begin(), sources.end(), source);
    const auto number = found - sources.begin() + 1;
    if (found == sources.end()) sources.push_back(source);
    table.add({fact.name, fact.value, fmt::format("[{}]", number)});
  }
  text += "\n" + table.to_text() + "\n";
  for (size_t i = 0; i < sources.size(); ++i) add(fmt::format("[{}] {}", i + 1, sources[i]));
  return text + (slice ? slice_text(*slice) : "");
}

std::string rates_text(const hw::HostRates& rates) {
  TextTable table({"a second, with all cores", ">measured"});
  const auto row = [&](const std::string& what, double rate, const char* unit) {
    table.add({what, fmt::format("{:.2f} {}", rate / 1e9, unit)});
  };
  row(fmt::format("f32 products, by OpenBLAS's kernels for {}", rates.kernels), rates.matrix_flops, "GFLOP");
  row("attention, state-space products and their gradients", rates.scan_flops, "GFLOP");
  row("read and written by elementwise programs", rates.bytes_per_second, "GB");
  return fmt::format("{}{}, {}; measured {}\n\n{}", base::counted(rates.cores, "core"),
                     rates.processor.empty() ? "" : " of " + rates.processor, human_bytes(rates.memory), rates.date,
                     table.to_text());
}

Json chip_json(const hw::Chip& chip) {
  Json valid = Json::array(), selective = Json::object();
  for (const auto& [precision, measured] : chip.selective_recompute)
    selective[precision] = {{"speed", measured_or_null(measured.speed)}, {"memory", measured_or_null(measured.memory)}};
  for (const hw::Sizes& slice : chip.slices.valid) valid.push_back(hw::to_text(slice));
  Json memory = {{"nominal", chip.nominal_bytes},
                 {"usable", chip.usable_bytes},
                 {"alignment", chip.alignment},
                 {"bandwidth", chip.memory_bytes_per_second}};
  memory["reserved"] = base::record_json(chip.reserved_bytes);
  Json xla = base::record_json(chip.xla);
  for (Json& number : xla)
    if (number == 0) number = Json();  // nobody measured it
  return {{"name", chip.name},
          {"title", chip.title},
          {"kind", hw::to_string(chip.kind)},
          {"aliases", chip.aliases},
          {"device_names", chip.device_names},
          {"from", chip.origin},
          {"memory", memory},
          {"xla", xla},
          {"peak_flops", chip.peak_flops},
          {"devices", chip.devices},
          {"selective_recompute", selective},
          {"tiles", chip.tiling.exists() ? Json{{"lanes", chip.tiling.lanes},
                                                {"rows", rows_json(chip.tiling.rows)},
                                                {"tall_rows", rows_json(chip.tiling.tall_rows)}}
                                         : Json()},
          {"links", base::record_json(chip.links)},
          {"slices", Json{{"shape", hw::to_string(chip.slices.shape)},
                          {"valid", valid},
                          {"block", chip.slices.block},
                          {"largest", chip.slices.largest},
                          {"ring_multiple", chip.slices.ring_multiple},
                          {"rings_need_all", chip.slices.rings_need_all},
                          {"host", hw::to_text(chip.slices.host)}}}};
}

Json chip_json(const hw::ListedChip& listed) {
  if (listed.chip) return chip_json(*listed.chip);
  return {{"name", listed.name}, {"error", error_json(*listed.why_not)}};
}

Json numbers_json(const hw::Chip& chip) { return base::record_json(chip.facts); }

Json slice_json(const hw::Slice& slice) {
  Json dimensions = Json::array();
  for (size_t i = 0; i < slice.sizes.size(); ++i)
    dimensions.push_back(Json{{"chips", slice.sizes[i]}, {"ring", slice.wraps(i)}, {"links", slice.links_along(i)}});
  return {{"name", slice.name},
          {"chips", slice.chips()},
          {"devices", slice.devices()},
          {"hosts", slice.hosts()},
          {"dimensions", dimensions}};
}

}  // namespace megacpp::cli
