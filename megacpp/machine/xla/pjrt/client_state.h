// SPDX-License-Identifier: Apache-2.0
// What a client shares with its programs and buffers; included by .cpp files of this folder only.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "megacpp/machine/collectives/key_values.h"
#include "megacpp/machine/runtime/counters.h"
#include "megacpp/machine/xla/pjrt/api.h"
#include "megacpp/machine/xla/pjrt/plugin.h"

namespace megacpp::runtime::pjrt {

struct ClientState {
  const Plugin* plugin = nullptr;
  /// Asked by the plugin while the client lives; shared with the run, which aborts it when it fails. None: alone.
  std::shared_ptr<collectives::KeyValues> store = {};
  Handle client = {};                      // ends before what it asks
  std::vector<PJRT_Device*> devices = {};  // addressable ones; owned by the client

  const Api& api() const { return plugin->api(); }

  /// Changes the counters under their lock: programs may run from several threads.
  template <typename Change>
  void count(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(counters_);
  }
  Counters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  int64_t programs_made() const {
    const std::lock_guard lock(mutex_);
    return counters_.programs_made();
  }

 private:
  mutable std::mutex mutex_;
  Counters counters_;
};

}  // namespace megacpp::runtime::pjrt
