// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "megacpp/cli/backend_text.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/hw_text.h"
#include "megacpp/cli/json.h"
#include "megacpp/cli/output.h"
#include "megacpp/core/base/error.h"
#include "megacpp/hardware/hw/chip_library.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/hardware/hw/tiled_layout.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/run/launch/assumptions.h"

namespace megacpp::cli {
namespace {

/// Of this machine, by the first backend that runs on it.
const runtime::HostRatesProbe& host_rates() { return runtime::backend_here({}).host_rates; }

hw::Chip chip_of(const std::string& name) {
  return name == "host" ? hw::host_chip(host_rates().kept(), 1) : hw::find_chip(name);
}

int list_chips(bool json) {
  std::vector<hw::ListedChip> chips = hw::all_chips();
  chips.push_back({.name = "host", .chip = chip_of("host")});
  if (!json) {
    write_output(chip_table(chips) + backends_text());
    return 0;
  }
  Json rows = Json::array();
  for (const hw::ListedChip& chip : chips) rows.push_back(chip_json(chip));
  print_json({{"hardware", rows}, {"backends", backends_json()}});
  return 0;
}

// ---- show

int show_chip(const std::string& name, bool json) {
  std::optional<hw::Slice> slice;
  if (name.find(':') != std::string::npos) slice = launch::slice_named(name);
  const hw::Chip chip = slice ? slice->chip : chip_of(name);
  if (!json) {
    write_output(chip_text(chip, slice));
    return 0;
  }
  Json object = chip_json(chip);
  object["numbers"] = numbers_json(chip);
  if (slice) object["slice"] = slice_json(*slice);
  print_json(object);
  return 0;
}

// ---- bytes

struct BytesFlags {
  std::string chip;
  std::string dtype;
  std::string shape;
  std::optional<std::string> layout;
};

/// "16,1280,40"; nothing in it is a scalar.
std::vector<int64_t> numbers(const std::string& text, const std::string& what) {
  std::vector<int64_t> numbers;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at != end) {
    int64_t number = 0;
    const auto [behind, error] = std::from_chars(at, end, number);
    const bool goes_on = behind != end && *behind == ',' && behind + 1 != end;
    MEGACPP_REQUIRE(error == std::errc() && (behind == end || goes_on), E1604,
                    ({.where = what,
                      .got = "'" + text + "'",
                      .wanted = "whole numbers with commas between them, such as 16,1280,40",
                      .next = "mend it; '' is a scalar"}));
    numbers.push_back(number);
    at = goes_on ? behind + 1 : behind;
  }
  return numbers;
}

int bytes(const BytesFlags& flags, bool json) {
  const hw::Chip chip = chip_of(flags.chip);
  const std::vector<int64_t> shape = numbers(flags.shape, "SHAPE");
  const hw::TensorLayout layout = flags.layout
                                      ? hw::forced_layout(chip, flags.dtype, shape, numbers(*flags.layout, "--layout"))
                                      : hw::argument_layout(chip, flags.dtype, shape);
  int64_t elements = hw::element_type(flags.dtype).bits;
  for (const int64_t size : shape) elements *= size;
  const int64_t unpadded = elements / 8;
  if (json) {
    print_json({{"chip", chip.name},
                {"layout", layout.text},
                {"minor_to_major", layout.minor_to_major},
                {"bytes", layout.bytes},
                {"unpadded_bytes", unpadded}});
    return 0;
  }
  print_out("{}\n{} bytes, {}", layout.text, layout.bytes, memory::human_bytes(layout.bytes));
  if (layout.bytes > unpadded)
    print_out("; {} without padding, {:.2f} times as much", unpadded,
              static_cast<double>(layout.bytes) / static_cast<double>(unpadded));
  print_out("\n");
  return 0;
}

// ---- measure

int measure(bool json) {
  const hw::HostRates rates = host_rates().renewed();
  if (json) {
    print_json(hw::to_json(rates));
    return 0;
  }
  write_output(rates_text(rates));
  print_out("kept in {}\n", host_rates().file().string());
  return 0;
}

// ---- the command

/// One flag for the command and its words, so that it may stand behind either.
using Flag = std::shared_ptr<bool>;

void declare_json(CLI::App& app, const Flag& json) { app.add_flag("--json", *json, "print JSON"); }

std::function<int()> declare_chip_show(CLI::App& app, const Flag& json) {
  auto name = std::make_shared<std::string>();
  app.add_option("HARDWARE", *name, "a chip, a slice of it, or a file: v6e, v6e:16x16, my-chip.yaml")->required();
  declare_json(app, json);
  return [name, json] { return show_chip(*name, *json); };
}

std::function<int()> declare_bytes(CLI::App& app, const Flag& json) {
  auto flags = std::make_shared<BytesFlags>();
  app.add_option("CHIP", flags->chip, "a chip or a file")->required();
  app.add_option("DTYPE", flags->dtype, "f32, bf16, s32, s8, ...")->required();
  app.add_option("SHAPE", flags->shape, "sizes with commas: 16,1280,40; '' for a scalar")->required();
  app.add_option("--layout", flags->layout,
                 "dimensions in this order, the minor one first; else the layout of an argument")
      ->type_name("ORDER");
  declare_json(app, json);
  return [flags, json] { return bytes(*flags, *json); };
}

std::function<int()> declare_measure(CLI::App& app, const Flag& json) {
  declare_json(app, json);
  return [json] { return measure(*json); };
}

std::function<int()> declare_hw(CLI::App& app) {
  const Flag json = std::make_shared<bool>(false);
  declare_json(app, json);
  return declare_words(app,
                       {{"show", "every number of one chip with its source and date",
                         "megacpp hw show v6e\n  megacpp hw show v6e:8x16\n  megacpp hw show my-chip.yaml --json",
                         [json](CLI::App& word) { return declare_chip_show(word, json); }},
                        {"bytes", "what a tensor takes in a chip's memory, and its layout there",
                         "megacpp hw bytes v6e bf16 16,1280,40\n  megacpp hw bytes v6e bf16 16,1280,40 --layout 2,1,0\n"
                         "  megacpp hw bytes h100 f32 4096,56 --json",
                         [json](CLI::App& word) { return declare_bytes(word, json); }},
                        {"measure", "measure what this machine can do and keep it for the hardware 'host'",
                         "megacpp hw measure", [json](CLI::App& word) { return declare_measure(word, json); }}},
                       [json] { return list_chips(*json); });
}

}  // namespace

Command hw_command() {
  return {.name = "hw",
          .summary = "list chips and backends, show a chip's numbers and sources, count a tensor's bytes on one",
          .example = "megacpp hw\n  megacpp hw show v6e\n  megacpp hw bytes v6e bf16 16,1280,40",
          .declare = declare_hw};
}

}  // namespace megacpp::cli
