// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/json.h"

#include <cstdio>

namespace megacpp::cli {

void print_json(const Json& object) { std::printf("%s\n", base::to_text(object, 2).c_str()); }

}  // namespace megacpp::cli
