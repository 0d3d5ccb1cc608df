// SPDX-License-Identifier: Apache-2.0
// An executable of chips that run their programs node by node, one host thread each: the order of a step, faults that
// are asked for, and one chip's failure ending the step of all. A backend brings the chips' devices. Devices with
// queues run behind their host: a plain step is enqueued, or replayed as a whole, and waited for only where something
// of it is fetched.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/runtime/chip_device.h"
#include "megacpp/machine/runtime/chip_threads.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/machine/runtime/hang_watch.h"
#include "megacpp/machine/runtime/load_options.h"
#include "megacpp/machine/runtime/native_chip.h"
#include "megacpp/program/compile/compile.h"

namespace megacpp::runtime {

/// What a backend brings.
struct NativeBackend {
  std::string path;
  /// The chips and their ends of the transport; shared by the devices and by load(), which aborts it when it fails.
  std::shared_ptr<collectives::World> world;
  /// Obtains the memory of a local chip.
  std::function<std::unique_ptr<ChipDevice>(int64_t chip)> device;
  std::shared_ptr<collectives::FlightRecorder> flight = {};  // of the devices' calls; none: nobody keeps them
  std::map<int64_t, int64_t> limits = {};  // bytes by local chip, for reports: plans were held against them before
  std::function<std::vector<std::string>()> notes = {};  // as Executable::load_notes; empty: none
  /// As Executable::load_parts, of a backend that knows more of it than what making the chips took.
  std::function<std::vector<base::TimedPart>(double seconds_of_chips)> load_parts = {};
  std::function<std::string()> repeats = {};  // as Executable::repeats; asked once it is loaded
};

class NativeExecutable : public Executable {
 public:
  NativeExecutable(const compile::Compiled& compiled, const LoadOptions& options, NativeBackend backend);

  const std::vector<int64_t>& local_chips() const override { return backend_.world->local_chips(); }
  std::optional<int64_t> state_bytes(const std::string& name, int64_t chip) const override;
  void run_step(StepMode mode) override;
  bool waits_for_steps() const override { return chips_.begin()->second->waits_for_steps(); }
  void abort(const std::string& reason) override;
  ChipMemory memory(int64_t chip) const override { return at(chip).memory(); }
  std::string path() const override { return backend_.path; }
  std::vector<std::string> load_notes() const override {
    return backend_.notes ? backend_.notes() : std::vector<std::string>();
  }
  std::vector<base::TimedPart> load_parts() const override;
  std::string repeats() const override { return backend_.repeats ? backend_.repeats() : ""; }
  Counters counters() const override { return counters_; }
  int64_t programs_made() const override { return counters_.programs_made(); }
  std::optional<StepParts> step_parts() const override;
  std::optional<BusyChip> busy() const override;
  std::vector<OpSeconds> op_seconds() const override;
  std::span<const TraceEvent> trace(int64_t chip) const override { return at(chip).timer().trace(); }

 protected:
  void put_state(const compile::StateTensor& tensor, int64_t chip, std::span<const std::byte> part) override;
  void get_state(const compile::StateTensor& tensor, int64_t chip, std::span<std::byte> part) const override;
  void make_state(const compile::StateTensor& tensor, int64_t chip, const FillPiece& fill) override;
  void put_batch(const StagedInput& input, int64_t micro, int64_t chip, std::span<const std::byte> part) override;
  void get_output(const FetchedOutput& output, int64_t chip, std::span<std::byte> values) const override;

 private:
  NativeChip& at(int64_t chip) const { return *chips_.at(chip); }
  bool has_parts() const { return steps_ >= 2 && !is_in_step_ && waits_for_steps(); }
  void fail_if_injected(const Fault& moment) const;
  void run_chip(int64_t chip, int64_t step, StepMode mode);
  void run_actions(int64_t chip, const Fault& moment, StepMode mode);
  void stop_if_requested() const;
  base::Error hang_error() const;
  void keep_flight() const {
    if (backend_.flight) backend_.flight->keep();
  }
  void count_upload(size_t bytes);
  void count_download(size_t bytes) const;

  NativeBackend backend_;
  Faults faults_;
  std::function<bool()> should_stop_;                     // asked before every micro-step; may be empty
  int64_t steps_ = 0;                                     // run so far
  bool is_in_step_ = false;                               // stays true after a step that did not end
  double warm_seconds_ = 0;                               // in all of these but the first
  mutable Counters counters_;                             // changed by the host's thread only
  std::map<int64_t, std::unique_ptr<NativeChip>> chips_;  // by local chip
  std::optional<HangWatch> watch_;  // of a mesh, where somebody asks for it: for one chip nobody waits
  ChipThreads threads_;
};

}  // namespace megacpp::runtime
