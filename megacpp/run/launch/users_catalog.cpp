// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/users_catalog.h"

#include <fmt/format.h>

#include "megacpp/core/base/path.h"
#include "megacpp/hardware/catalog/location.h"

namespace megacpp::launch {

UsersCatalog::UsersCatalog(const CatalogChoice& choice, catalog::Access access, Log log) : log_(std::move(log)) {
  if (choice.none) {
    why_not_ = "left out by --no-catalog";
    return;
  }
  try {
    const std::filesystem::path path =
        choice.file.empty() ? catalog::default_path() : std::filesystem::path(choice.file);
    if (access == catalog::Access::read && !base::exists(path)) {
      why_not_ = "there is no catalog yet";
      return;
    }
    catalog::MaybeCatalog opened = catalog::Catalog::open_or_none(path, {.access = access});
    catalog_ = std::move(opened.catalog);
    if (opened.why_not) leave(*opened.why_not);
  } catch (const base::Error& error) {
    leave(error);
  }
}

void UsersCatalog::leave(const base::Error& error) {
  catalog_.reset();
  why_not_ = fmt::format("{} {}: {}", base::code_name(error.code()), error.problem().where, error.problem().got);
  log_({"catalog", "not used: " + why_not_});
}

}  // namespace megacpp::launch
