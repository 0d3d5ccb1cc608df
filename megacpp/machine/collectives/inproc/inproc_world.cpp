// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/collectives/inproc/inproc_world.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "megacpp/machine/collectives/transport.h"

namespace megacpp::collectives {
namespace {

CallEngine::Options all_local(const WorldOptions& options) {
  CallEngine::Options own{.chips = options.chips, .local = {}, .wait_limit = options.wait_limit};
  own.local.resize(static_cast<size_t>(std::max<int64_t>(options.chips, 0)));
  std::iota(own.local.begin(), own.local.end(), int64_t{0});
  return own;
}

}  // namespace

InprocWorld::InprocWorld(const WorldOptions& options, const Properties& properties)
    : properties_(properties), engine_(all_local(options)), mover_(engine_) {
  engine_.attach(mover_);
}

std::vector<std::string> InprocWorld::gather(const std::string& own) {
  engine_.require_alive(local_chips().front(), "agreement of all processes");
  return {own};
}

Properties inproc_properties() { return {.name = "inproc", .has_fixed_order_sums = true, .ordering = Ordering::host}; }

Transport inproc_transport() {
  return {.properties = inproc_properties(),
          .doc = "chips are threads of one process and read each other's buffers",
          .workspace_bytes = [](const Call&, int64_t) { return int64_t{0}; },
          .make = [](const WorldOptions& options) { return std::make_unique<InprocWorld>(options); }};
}

}  // namespace megacpp::collectives
