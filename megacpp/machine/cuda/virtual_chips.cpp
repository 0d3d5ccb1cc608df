// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/virtual_chips.h"

#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/device_communicator.h"

namespace megacpp::runtime::cuda {
namespace {

collectives::CallEngine::Options engine_options(const VirtualChipsOptions& options) {
  const int64_t chips = options.control->chips();
  MEGACPP_REQUIRE(chips <= kMaxGroupMembers, E1505,
                  ({.where = "layout",
                    .got = std::to_string(chips) + " chips in one process",
                    .wanted = "at most " + std::to_string(kMaxGroupMembers),
                    .next = "take fewer chips, or one GPU for each of several processes"}));
  return {.chips = chips, .local = options.control->local_chips(), .wait_limit = options.wait_limit};
}

}  // namespace

class VirtualChips::Chip final : public EngineCommunicator {
 public:
  Chip(collectives::ChipCalls& calls, GpuMover& mover) : EngineCommunicator(calls), mover_(mover) {}

  void wait(Stream* stream) override { mover_.wait(rank(), stream); }
  // Members read each other's buffers.
  int64_t workspace_bytes(const collectives::Call&, int64_t) const override { return 0; }

 private:
  GpuMover& mover_;
};

VirtualChips::VirtualChips(VirtualChipsOptions options)
    : options_(std::move(options)),
      engine_(engine_options(options_)),
      mover_({.engine = engine_, .control = *options_.control, .gpus = options_.gpus}) {
  engine_.attach(mover_, &mover_);
  for (const int64_t chip : local_chips()) chips_.push_back(std::make_unique<Chip>(engine_.at(chip), mover_));
}

// Streams and events go from any context.
VirtualChips::~VirtualChips() {
  const Gpu& gpu = *options_.gpus.front();
  gpu.driver().ctx_set_current.attempt(gpu.context());
}

collectives::Properties virtual_chips_properties() {
  return {.name = "cuda", .has_fixed_order_sums = true, .ordering = collectives::Ordering::stream};
}

const collectives::Properties& VirtualChips::properties() const {
  static const collectives::Properties properties = virtual_chips_properties();
  return properties;
}

collectives::Communicator& VirtualChips::communicator(int64_t chip) {
  MEGACPP_CHECK(chip >= 0 && chip < chips()) << "there is no " << collectives::chip_text(chip);
  return *chips_[static_cast<size_t>(chip)];
}

// One process is all there are.
std::vector<std::string> VirtualChips::gather(const std::string& own) {
  engine_.require_alive(local_chips().front(), "agreement of all processes");
  return {own};
}

}  // namespace megacpp::runtime::cuda
