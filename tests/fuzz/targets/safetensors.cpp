// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/safetensors_check.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void read_file_bytes(Bytes input) { read_safetensors(as_text(input)); }

}  // namespace

Target safetensors_target() {
  return {.name = "safetensors", .subject = "safetensors files as bytes", .weight = 50, .run = read_file_bytes};
}

}  // namespace megacpp::fuzz
