// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/device_world.h"

#include <string>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/nccl_chips.h"
#include "megacpp/machine/cuda/virtual_chips.h"

namespace megacpp::runtime::cuda {

std::unique_ptr<collectives::World> make_device_world(const DeviceWorldOptions& options) {
  const collectives::World& control = *options.control;
  if (control.has_all_chips())
    return std::make_unique<VirtualChips>(
        VirtualChipsOptions{.control = options.control, .wait_limit = options.wait_limit, .gpus = options.gpus});
  MEGACPP_REQUIRE(control.local_chips().size() == 1, E1505,
                  ({.where = "backend cuda",
                    .got = std::to_string(control.local_chips().size()) + " of " + std::to_string(control.chips()) +
                           " chips in this process",
                    .wanted = "one in each process, or all in one",
                    .next = "start as many processes as the layout has chips, or one"}));
  const Gpu& gpu = *options.gpus.front();
  return std::make_unique<NcclChips>(NcclChipsOptions{.control = options.control,
                                                      .wait_limit = options.wait_limit,
                                                      .driver = gpu.driver(),
                                                      .toolbox = gpu.toolbox(),
                                                      .context = gpu.context()});
}

}  // namespace megacpp::runtime::cuda
