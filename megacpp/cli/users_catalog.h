// SPDX-License-Identifier: Apache-2.0
// The user's catalog, for commands that gain from one and go on without.
#pragma once

#include <optional>
#include <string>

#include "megacpp/catalog/catalog.h"

namespace megacpp::cli {

struct UsersCatalog {
  std::optional<catalog::Catalog> catalog = {};
  std::string why_not = {};  // one line; empty where there is one
  bool is_broken = false;    // there should be one: worth a word even where nobody asked
};

/// Read access makes no file where there is none yet.
UsersCatalog open_users_catalog(catalog::Access access);

}  // namespace megacpp::cli
