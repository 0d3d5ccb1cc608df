// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/hf_check.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void read_config_text(Bytes input) { read_hf_config(as_text(input)); }

}  // namespace

Target hf_config_target() {
  return {.name = "hf_config", .subject = "Hugging Face configurations as text", .weight = 50, .run = read_config_text};
}

}  // namespace megacpp::fuzz
