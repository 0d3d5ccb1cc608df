// SPDX-License-Identifier: Apache-2.0
// A mesh in one process: all chips are its own (local_chips.h), and no other process takes part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/collectives/inproc/local_chips.h"
#include "megacpp/collectives/world.h"

namespace megacpp::collectives {

class InprocWorld final : public World {
 public:
  explicit InprocWorld(const WorldOptions& options);

  const Properties& properties() const override;
  int64_t chips() const override { return chips_.chips(); }
  const std::vector<int64_t>& local_chips() const override { return chips_.local(); }
  Communicator& communicator(int64_t chip) override { return chips_.communicator(chip); }
  void abort(int64_t chip, const std::string& reason) override { communicator(chip).abort(reason); }
  bool has_failed() override {
    const LocalChips::Lock lock(chips_.mutex);
    return chips_.has_failed();
  }

 protected:
  /// One process is all there are.
  std::vector<std::string> gather(const std::string& own) override;

 private:
  LocalChips chips_;
};

}  // namespace megacpp::collectives
