// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/json.h"

#include <cstdio>

#include <nlohmann/json.hpp>

namespace megacpp::cli {

Json from_base(const base::Json& json) { return Json::parse(base::to_text(json)); }

void print_json(const Json& object) { std::printf("%s\n", object.dump(2).c_str()); }

}  // namespace megacpp::cli
