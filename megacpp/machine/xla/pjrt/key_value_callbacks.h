// SPDX-License-Identifier: Apache-2.0
// The store by which the clients of a plugin in several processes find each other, as the plugin calls it: from any of
// its threads, while the client lives. What goes wrong there is an error of the plugin's own making, with our words.
#pragma once

#include "megacpp/machine/collectives/key_values.h"

struct PJRT_Client_Create_Args;

namespace megacpp::runtime::pjrt {

/// `store` must outlive the client.
void serve_key_values(PJRT_Client_Create_Args& args, collectives::KeyValues& store);

}  // namespace megacpp::runtime::pjrt
