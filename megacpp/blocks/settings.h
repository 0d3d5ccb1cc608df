// SPDX-License-Identifier: Apache-2.0
// The keys of a family's settings, made of their list of members (schema/record_keys.h).
#pragma once

#include <utility>
#include <vector>

#include "megacpp/blocks/block.h"
#include "megacpp/schema/record_keys.h"

namespace megacpp::blocks {

template <base::Record Settings>
std::vector<ConfigKey> settings_of() {
  std::vector<ConfigKey> keys;
  std::vector<schema::Key<Settings>> own = schema::keys_of<Settings>();
  for (schema::Key<Settings>& key : own)
    keys.push_back({std::move(static_cast<schema::KeySpec&>(key)),
                    [member = std::move(key.member)](Config& config) { return member(config.as<Settings>()); }});
  return keys;
}

}  // namespace megacpp::blocks
