// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/transport.h"

namespace megacpp::collectives {

const std::vector<Transport>& all_transports() {
  static const std::vector<Transport> table = {
#define MEGACPP_TRANSPORT(name) name##_transport(),
#include "megacpp/machine/collectives/transport_list.inc"
#undef MEGACPP_TRANSPORT
  };
  return table;
}

}  // namespace megacpp::collectives
