// SPDX-License-Identifier: Apache-2.0
// The flags that choose the catalog of a command.
#pragma once

#include <string>

#include "megacpp/run/launch/users_catalog.h"

namespace CLI {
class App;
}

namespace megacpp::cli {

/// `--catalog` and `--no-catalog`; `what` is what the command does with one: "ask and tell it".
void declare_catalog_flags(CLI::App& app, launch::CatalogChoice& choice, const std::string& what);

}  // namespace megacpp::cli
