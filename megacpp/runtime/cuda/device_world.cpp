// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/device_world.h"

#include <string>

#include "megacpp/base/error.h"
#include "megacpp/runtime/cuda/virtual_chips.h"

namespace megacpp::runtime::cuda {

std::unique_ptr<collectives::World> make_device_world(const DeviceWorldOptions& options) {
  const collectives::World& control = *options.control;
  MEGACPP_REQUIRE(control.has_all_chips(), E1505,
                  ({.where = "backend cuda",
                    .got = std::to_string(control.local_chips().size()) + " of " + std::to_string(control.chips()) +
                           " chips in this process",
                    .wanted = "all of them",
                    .next = "start megacpp alone: its chips share the GPU"}));
  return std::make_unique<VirtualChips>(VirtualChipsOptions{.control = options.control,
                                                            .wait_limit = options.wait_limit,
                                                            .driver = options.driver,
                                                            .toolbox = options.toolbox,
                                                            .context = options.context});
}

}  // namespace megacpp::runtime::cuda
