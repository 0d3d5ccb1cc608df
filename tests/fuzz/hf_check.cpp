// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/hf_check.h"

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/run/checkpoint/hf_config.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {

void read_hf_config(std::string_view text) {
  const base::Json config = base::parse_json(text, base::Code::E1202, "config.json");
  const std::string cls = checkpoint::hf_class_of(config);
  for (const checkpoint::HfNaming naming : {checkpoint::HfNaming::in_memory, checkpoint::HfNaming::on_disk}) {
    const checkpoint::HfModel model = checkpoint::import_hf_config(cls, config, naming);
    require(!model.names.pieces.empty(), "a model has parameters");
  }
}

}  // namespace megacpp::fuzz
