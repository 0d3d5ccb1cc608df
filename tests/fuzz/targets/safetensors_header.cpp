// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tests/fuzz/json_tree.h"
#include "tests/fuzz/safetensors_check.h"

namespace megacpp::fuzz {
namespace {

constexpr size_t kDataBytes = 64;

// Fills the data exactly, as a valid header does.
constexpr const char* kHeader = R"({
  "__metadata__": {"format": "pt"},
  "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
  "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
  "c": {"dtype": "I64", "shape": [2, 1], "data_offsets": [32, 48]},
  "d": {"dtype": "I32", "shape": [], "data_offsets": [48, 52]},
  "e": {"dtype": "F16", "shape": [6, 1], "data_offsets": [52, 64]},
  "f": {"dtype": "F32", "shape": [0, 7], "data_offsets": [64, 64]}
})";

void read_changed_header(Bytes input) {
  Choices choices(input);
  base::Json header = base::Json::parse(kHeader);
  change_tree(header, choices);
  std::string data(kDataBytes, static_cast<char>(choices.byte()));
  data.resize(choices.one_in(8) ? choices.below(2 * kDataBytes) : kDataBytes);
  read_safetensors(safetensors_file(base::to_text(header), data));
}

}  // namespace

Target safetensors_header_target() {
  return {.name = "safetensors_header",
          .subject = "headers of safetensors files",
          .weight = 50,
          .run = read_changed_header};
}

}  // namespace megacpp::fuzz
