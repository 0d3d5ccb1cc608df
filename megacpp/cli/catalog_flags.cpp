// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/catalog_flags.h"

#include <CLI/CLI.hpp>

namespace megacpp::cli {

void declare_catalog_flags(CLI::App& app, launch::CatalogChoice& choice, const std::string& what) {
  CLI::Option* file = app.add_option("--catalog", choice.file,
                                     "the catalog of launches to use; else MEGACPP_CATALOG, else the user's own");
  file->type_name("FILE");
  app.add_flag("--no-catalog", choice.none, "do not " + what)->excludes(file);
}

}  // namespace megacpp::cli
