// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/users_catalog.h"

#include <fmt/format.h>

#include "megacpp/catalog/location.h"

namespace megacpp::cli {
namespace {

UsersCatalog broken(const base::Error& error) {
  return {
      .why_not = fmt::format("{} {}: {}", base::code_name(error.code()), error.problem().where, error.problem().got),
      .is_broken = true};
}

}  // namespace

UsersCatalog open_users_catalog(catalog::Access access) {
  try {
    const std::filesystem::path path = catalog::default_path();
    if (access == catalog::Access::read && !std::filesystem::exists(path))
      return {.why_not = "there is no catalog yet"};
    catalog::MaybeCatalog opened = catalog::Catalog::open_or_none(path, {.access = access});
    if (opened.why_not) return broken(*opened.why_not);
    return {.catalog = std::move(opened.catalog)};
  } catch (const base::Error& error) {
    return broken(error);
  }
}

}  // namespace megacpp::cli
