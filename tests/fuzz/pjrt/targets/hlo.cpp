// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/choices.h"
#include "tests/fuzz/pjrt/hlo_check.h"

namespace megacpp::fuzz {
namespace {

void read_program_bytes(Bytes input) {
  Choices choices(input);
  const std::string format = choices.any_of({"hlo", "hlo_with_config", "stablehlo"});
  read_hlo(std::string(as_text(input.subspan(std::min<size_t>(1, input.size())))), format);
}

}  // namespace

Target hlo_target() {
  return {.name = "hlo", .subject = "compiled HLO programs as bytes", .weight = 100, .run = read_program_bytes};
}

}  // namespace megacpp::fuzz
