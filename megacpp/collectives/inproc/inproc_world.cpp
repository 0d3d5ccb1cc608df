// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/inproc/inproc_world.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "megacpp/collectives/transport.h"

namespace megacpp::collectives {
namespace {

LocalChips::Options all_local(const WorldOptions& options) {
  LocalChips::Options own{.chips = options.chips, .local = {}, .wait_limit = options.wait_limit};
  own.local.resize(static_cast<size_t>(std::max<int64_t>(options.chips, 0)));
  std::iota(own.local.begin(), own.local.end(), int64_t{0});
  return own;
}

}  // namespace

InprocWorld::InprocWorld(const WorldOptions& options) : chips_(all_local(options)) {}

const Properties& InprocWorld::properties() const {
  static const Properties properties = inproc_transport().properties;
  return properties;
}

std::vector<std::string> InprocWorld::gather(const std::string& own) {
  LocalChips::Lock lock(chips_.mutex);
  chips_.check_alive(lock, local_chips().front(), "agreement of all processes");
  return {own};
}

Transport inproc_transport() {
  return {.properties = {.name = "inproc", .has_fixed_order_sums = true, .ordering = Ordering::host},
          .doc = "chips are threads of one process and read each other's buffers",
          .workspace_bytes = [](const Call&, int64_t) { return int64_t{0}; },
          .make = [](const WorldOptions& options) { return std::make_unique<InprocWorld>(options); }};
}

}  // namespace megacpp::collectives
