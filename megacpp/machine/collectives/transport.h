// SPDX-License-Identifier: Apache-2.0
// One record a transport: what it is, what it needs, how its worlds are made. To add one: collectives/<name>/ with a
// World and `Transport <name>_transport()`, one line in transport_list.inc; the conformance tests run on every line.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "megacpp/machine/collectives/world.h"

namespace megacpp::collectives {

struct Transport {
  Properties properties;
  std::string_view doc;
  /// Bytes on a chip that it wants for a collective from start to finish, as Call::workspace; the memory plan holds
  /// them. The call has neither addresses nor a group yet: `members` is the size of its group. Sends and receives get
  /// none: a send may stay in flight until the step ends.
  std::function<int64_t(const Call& call, int64_t members)> workspace_bytes;
  /// All processes together. A world that could not be made on one process is an error on all.
  std::function<std::unique_ptr<World>(const WorldOptions& options)> make;
};

const std::vector<Transport>& all_transports();

#define MEGACPP_TRANSPORT(name) Transport name##_transport();
#include "megacpp/machine/collectives/transport_list.inc"
#undef MEGACPP_TRANSPORT

}  // namespace megacpp::collectives
