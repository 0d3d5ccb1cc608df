// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/chip_check.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void read_chip_file(Bytes input) { read_chip_text(std::string(as_text(input))); }

}  // namespace

Target chip_file_target() {
  return {.name = "chip_file", .subject = "chip files as YAML text", .weight = 50, .run = read_chip_file};
}

}  // namespace megacpp::fuzz
