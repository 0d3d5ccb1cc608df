// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/byte_size.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

hw::HostRates host_rates() {
  return {.matrix_flops = 1e11,
          .bytes_per_second = 2e10,
          .cores = 4,
          .memory = int64_t{1} << 34,
          .processor = "fuzz",
          .date = "2026-11-16"};
}

void read_hardware(Bytes input) {
  const std::string text(as_text(input));
  recipe::parse_chip_limit(text);
  recipe::parse_fail_allocation(text);
  if (hw::names_file(text.substr(0, text.find(':')))) return;  // chip files are targets of their own
  const hw::Slice slice = hw::parse_target(text, {.places = {}, .host_rates = host_rates});
  require(slice.devices() > 0, "a slice has devices");
  for (const int64_t chip : {int64_t{0}, slice.chips() - 1})
    require(slice.coordinates(chip).size() == slice.sizes.size() && slice.host_of(chip) < slice.hosts(),
            "a chip has a place and a host");
}

}  // namespace

Target hardware_target() {
  return {.name = "hardware", .subject = "names of hardware and settings of chips", .weight = 5, .run = read_hardware};
}

}  // namespace megacpp::fuzz
