// SPDX-License-Identifier: Apache-2.0
// Saves the kept state of a run while it goes on. save() copies what the local chips hold into a snapshot, each element
// from one chip however many hold it, and returns; a thread writes the checkpoint from there, or save() itself where
// the system gives no thread. The snapshot is reserved once, as large as the local chips' kept state without copies;
// its pages are obtained before the first save. A save that fails ends alone: the run goes on, and the checkpoints
// before stay as they are. Over several processes each saves what its own chips hold, and all at the same steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/machine_memory.h"
#include "megacpp/core/base/reserved_memory.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/checkpoint/store.h"
#include "megacpp/run/checkpoint/writer.h"

namespace megacpp::train {

/// The kept tensors of a run by name, and for each the chips that save it: those of the first pipeline stage that has
/// it.
struct SavedPart {
  const compile::StateTensor* tensor;
  int64_t chip;
  checkpoint::Box box;
};
/// Parts of all chips, each element once; chips that hold the same share the work evenly.
std::vector<SavedPart> saved_parts(const compile::Compiled& compiled);
/// Of host memory, that a process with these chips saves from; they ascend.
int64_t snapshot_bytes(const compile::Compiled& compiled, const std::vector<int64_t>& chips);

struct SaveOptions {
  checkpoint::Store store;
  checkpoint::Manifest header;  // of every checkpoint; its position is where the run began
  int64_t samples_per_step = 0;
  int64_t keep = 0;        // as recipe::Checkpoint
  int64_t keep_every = 0;  //
  /// Those that write the checkpoint together, used by nothing else while the saver lives; none: this one alone.
  collectives::World* processes = nullptr;
  /// That the host has left, asked while the snapshot is obtained.
  std::function<int64_t()> free_bytes = [] { return base::available_memory_bytes(); };
  /// What became of a save, once it has ended: called by save() and finish(), on their thread.
  std::function<void(const std::string&)> log = {};
};

class StateSaver {
 public:
  /// Both must outlive it.
  StateSaver(const compile::Compiled& compiled, const runtime::Executable& run, SaveOptions options);
  /// Ends the save that is under way.
  ~StateSaver();
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  /// Obtains the memory of all saves, once: best when a step has shown what the run itself uses; the first save does it
  /// otherwise. memory::OutOfMemory of class host where the machine has too little.
  void obtain_snapshot();

  /// The state after so many steps. Waits for the save before this one, where it has not ended, and throws its error
  /// where another process is gone: no later save could be whole.
  void save(int64_t step);
  /// Waits for the last save, and throws its error where it failed.
  void finish();

  /// In save(), the copies and the waits; and in obtain_snapshot().
  double blocked_seconds() const { return blocked_seconds_; }
  int64_t saves() const { return saves_; }

 private:
  void copy_state();
  void start_writing(int64_t step);
  void write(int64_t step);
  void try_to_write(int64_t step);
  void give_up_without_memory(int64_t step);
  bool writes_manifest() const;
  void prune();
  void wait();
  void log_outcome() const;

  const compile::Compiled& compiled_;
  const runtime::Executable& run_;
  SaveOptions options_;
  std::vector<SavedPart> parts_;  // of the local chips
  base::ReservedMemory snapshot_;
  bool is_obtained_ = false;
  std::vector<checkpoint::PieceBytes> pieces_;  // of the snapshot, in the order of parts_
  std::vector<std::byte> padded_;               // a chip's part with padding, on its way
  std::thread writer_;
  std::string outcome_;       // the writer's, until it is joined
  std::exception_ptr error_;  // of the last save
  bool is_over_ = false;      // that of the processes that save together
  double blocked_seconds_ = 0;
  int64_t saves_ = 0;
};

/// What every checkpoint of a run with this recipe says of it, but for the code that runs it.
checkpoint::Manifest manifest_header(const recipe::Recipe& recipe);

}  // namespace megacpp::train
