// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_folder.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void read_index_text(Bytes input) {
  for (const auto& [tensor, file] : checkpoint::parse_hf_index(as_text(input), "model.safetensors.index.json"))
    require(!file.empty() && file.find('/') == std::string::npos, "a file of the same folder");
}

}  // namespace

Target hf_index_target() {
  return {
      .name = "hf_index", .subject = "indices of sharded safetensors as text", .weight = 50, .run = read_index_text};
}

}  // namespace megacpp::fuzz
