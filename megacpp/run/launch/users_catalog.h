// SPDX-License-Identifier: Apache-2.0
// The user's catalog, for commands that gain from one and go on without.
#pragma once

#include <optional>
#include <string>

#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/run/launch/log.h"

namespace megacpp::launch {

struct CatalogChoice {
  std::string file = {};  // empty: the user's own
  bool none = false;
};

class UsersCatalog {
 public:
  /// Read access makes no file where there is none yet. A catalog that is damaged, locked or out of reach is said in
  /// the log and not used.
  UsersCatalog(const CatalogChoice& choice, catalog::Access access, Log log = no_log);

  /// Calls `body(catalog)` where there is one. A failure ends its use: nobody waits twice for a locked file.
  template <typename Body>
  void use(const Body& body) {
    if (!catalog_) return;
    try {
      body(*catalog_);
    } catch (const base::Error& error) {
      leave(error);
    }
  }

  /// Why it is not used, in one line; empty while it is.
  const std::string& why_not() const { return why_not_; }

 private:
  void leave(const base::Error& error);

  Log log_;
  std::optional<catalog::Catalog> catalog_;
  std::string why_not_;
};

}  // namespace megacpp::launch
