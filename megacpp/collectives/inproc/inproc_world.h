// SPDX-License-Identifier: Apache-2.0
// A mesh in one process: every chip is a thread, and members of a group read straight from each other's buffers. There
// is no thread of its own: a call is posted by start(), and each member does its share of all its calls in flight
// whenever it is inside finish(). Sums are added in the order of the group. Waiting sleeps. Nothing is allocated after
// the groups are made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/collectives/world.h"

namespace megacpp::collectives {

class InprocWorld final : public World {
 public:
  explicit InprocWorld(const WorldOptions& options);
  ~InprocWorld() override;

  const Properties& properties() const override;
  int64_t chips() const override { return static_cast<int64_t>(local_chips_.size()); }
  const std::vector<int64_t>& local_chips() const override { return local_chips_; }
  Communicator& communicator(int64_t chip) override;
  void abort(int64_t chip, const std::string& reason) override;

 protected:
  /// One process is all there are.
  std::vector<std::string> gather(const std::string& own) override;

 private:
  class State;
  class Chip;
  std::vector<int64_t> local_chips_;  // all
  std::unique_ptr<State> state_;
};

}  // namespace megacpp::collectives
