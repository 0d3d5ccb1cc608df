// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/state_saver.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/spare_memory.h"
#include "megacpp/core/base/stopwatch.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/program/compile/state_table.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/train/save_together.h"

namespace megacpp::train {
namespace {

int64_t saved_bytes(const SavedPart& part) { return part.box.elements() * ir::dtype_bytes(part.tensor->whole.dtype); }

int64_t sum_of_bytes(const std::vector<SavedPart>& parts) {
  int64_t bytes = 0;
  for (const SavedPart& part : parts) bytes += saved_bytes(part);
  return bytes;
}

std::vector<SavedPart> local_parts(const compile::Compiled& compiled, const std::vector<int64_t>& chips) {
  std::vector<SavedPart> parts = saved_parts(compiled);
  std::erase_if(parts, [&](const SavedPart& part) { return !std::ranges::binary_search(chips, part.chip); });
  return parts;
}

/// The chips of every stage.
std::vector<std::vector<int64_t>> chips_by_stage(const compile::Compiled& compiled) {
  std::vector<std::vector<int64_t>> chips(compiled.stages.size());
  for (int64_t chip = 0; chip < compiled.mesh.chips(); ++chip) chips[compiled.stage_of(chip)].push_back(chip);
  return chips;
}

/// The kept tensors of every stage, each in the first that has it.
std::vector<std::vector<const compile::StateTensor*>> saved_tensors(const compile::Compiled& compiled) {
  std::vector<std::vector<const compile::StateTensor*>> tensors(compiled.stages.size());
  std::set<std::string> names;
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage)
    for (const compile::StateTensor& tensor : compiled.stages[stage].state)
      if (tensor.kept && names.insert(tensor.name).second) tensors[stage].push_back(&tensor);
  return tensors;
}

}  // namespace

std::vector<SavedPart> saved_parts(const compile::Compiled& compiled) {
  std::vector<SavedPart> parts;
  const std::vector<std::vector<int64_t>> chips = chips_by_stage(compiled);
  const std::vector<std::vector<const compile::StateTensor*>> tensors = saved_tensors(compiled);
  std::vector<int64_t> load(static_cast<size_t>(compiled.mesh.chips()));  // bytes by chip
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) {
    for (const compile::StateTensor* const tensor : tensors[stage]) {
      std::map<checkpoint::Box, std::vector<int64_t>> holders;
      for (const int64_t chip : chips[stage])
        holders[checkpoint::box_of(tensor->whole.shape, tensor->sharding, compiled.mesh, chip)].push_back(chip);
      for (const auto& [box, held_by] : holders) {
        if (box.elements() == 0) continue;
        const int64_t owner = *std::ranges::min_element(
            held_by, {}, [&](int64_t chip) { return std::pair(load[static_cast<size_t>(chip)], chip); });
        parts.push_back({.tensor = tensor, .chip = owner, .box = box});
        load[static_cast<size_t>(owner)] += saved_bytes(parts.back());
      }
    }
  }
  return parts;
}

int64_t snapshot_bytes(const compile::Compiled& compiled, const std::vector<int64_t>& chips) {
  return sum_of_bytes(local_parts(compiled, chips));
}

StateSaver::StateSaver(const compile::Compiled& compiled, const runtime::Executable& run, SaveOptions options)
    : compiled_(compiled),
      run_(run),
      options_(std::move(options)),
      parts_(local_parts(compiled, run.local_chips())),
      snapshot_(static_cast<size_t>(sum_of_bytes(parts_))) {
  const size_t bytes = snapshot_.bytes().size();
  const bool is_whole = std::ssize(run.local_chips()) == run.chips();
  MEGACPP_CHECK(is_whole || options_.processes != nullptr) << "chips of other processes, which nobody saves";
  MEGACPP_CHECK(!is_whole || static_cast<int64_t>(bytes) == compile::kept_bytes(compiled))
      << "parts of " << bytes << " bytes, tensors of " << compile::kept_bytes(compiled);
  size_t begin = 0;
  for (const SavedPart& part : parts_) {
    const auto size = static_cast<size_t>(saved_bytes(part));
    pieces_.push_back({.tensor = part.tensor->name,
                       .whole = part.tensor->whole,
                       .is_weight = part.tensor->role != ir::Role::optimizer,
                       .shard = part.chip,
                       .box = part.box,
                       .bytes = snapshot_.bytes().subspan(begin, size)});
    begin += size;
  }
}

StateSaver::~StateSaver() {
  if (writer_.joinable()) writer_.join();
}

void StateSaver::obtain_snapshot() {
  if (std::exchange(is_obtained_, true)) return;
  const auto start = std::chrono::steady_clock::now();
  const std::optional<base::MemoryShortage> shortage = snapshot_.obtain(options_.free_bytes);
  blocked_seconds_ += base::seconds_since(start);
  if (!shortage) return;
  const std::string host = runtime::host_name();
  throw memory::OutOfMemory(
      base::Code::E2005,
      {.where = "snapshot of checkpoints on host " + host,
       .got = fmt::format("{} bytes to obtain, {} free", shortage->wanted, shortage->free),
       .wanted = "memory of the host for a copy of the saved state, beside what runs there",
       .next = "free memory on this machine, raise its container's limit, use more hosts, or set checkpoint.every=-1"},
      {.cls = memory::OomClass::host,
       .phase = "obtaining the snapshot of checkpoints",
       .place = "host " + host,
       .wanted = shortage->wanted,
       .limit = shortage->free});
}

void StateSaver::save(int64_t step) {
  obtain_snapshot();
  const auto start = std::chrono::steady_clock::now();
  wait();
  if (is_over_) finish();
  copy_state();
  start_writing(step);
  blocked_seconds_ += base::seconds_since(start);
  ++saves_;
}

// Where the system gives no thread, the step waits for the disk.
void StateSaver::start_writing(int64_t step) {
  try {
    writer_ = std::thread([this, step] { write(step); });
    return;
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  write(step);
  log_outcome();
}

void StateSaver::finish() {
  wait();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void StateSaver::copy_state() {
  std::byte* to = snapshot_.bytes().data();
  for (const SavedPart& part : parts_) {
    const std::span<std::byte> bytes(to, static_cast<size_t>(saved_bytes(part)));
    const ir::TensorType local = compile::local_type(*part.tensor, compiled_.mesh);
    if (local.shape == part.box.shape) {
      run_.read_state(part.tensor->name, part.chip, bytes);
    } else {
      padded_.resize(static_cast<size_t>(local.bytes()));
      run_.read_state(part.tensor->name, part.chip, padded_);
      checkpoint::copy_overlap({part.box, local.shape, padded_}, {part.box, part.box.shape, bytes},
                               ir::dtype_bytes(local.dtype));
    }
    to += bytes.size();
  }
}

// On a thread of its own, which nothing may be thrown out of.
void StateSaver::write(int64_t step) {
  error_ = nullptr;
  try {
    try_to_write(step);
  } catch (const std::bad_alloc&) {
    give_up_without_memory(step);
  }
}

void StateSaver::try_to_write(int64_t step) {
  try {
    checkpoint::Manifest header = options_.header;
    header.position.samples_consumed += (step - header.position.step) * options_.samples_per_step;
    header.position.step = step;
    const checkpoint::Manifest saved =
        options_.processes == nullptr ? checkpoint::write_checkpoint(options_.store, std::move(header), pieces_)
                                      : save_together(*options_.processes, options_.store, std::move(header), pieces_);
    outcome_ = fmt::format("step {} saved: {:.1f} MB in {}, {}", step, static_cast<double>(saved.bytes()) / 1e6,
                           base::counted(std::ssize(saved.files), "file"), options_.store.path_of(step).string());
  } catch (const base::Error& error) {
    outcome_ = fmt::format("step {} was not saved, those before stay: {}, {}", step, error.problem().where,
                           error.problem().got);
    error_ = std::current_exception();
    is_over_ = error.code() == base::Code::E3101 || error.code() == base::Code::E3102;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    outcome_ = fmt::format("step {} was not saved, those before stay: {}", step, error.what());
    error_ = std::current_exception();
  }
  if (!error_ && writes_manifest()) prune();
}

// What was begun is removed once more: without memory that may have failed as well. The spare memory, if any, was given
// back when it ran out.
void StateSaver::give_up_without_memory(int64_t step) {
  try {
    if (writes_manifest()) options_.store.discard(step);
    const std::string got = "the system refused an allocation";
    outcome_ = fmt::format("step {} was not saved, those before stay: {}", step, got);
    error_ = std::make_exception_ptr(
        base::Error(base::Code::E2005,
                    {.where = options_.store.path_of(step).string(),
                     .got = got,
                     .wanted = "memory for the names of its files and tensors, beside the snapshot",
                     .next = "free memory, or raise the limit of the process or container; the checkpoints before "
                             "stay: megacpp train --resume RUN"}));
  } catch (const std::bad_alloc&) {
    outcome_.clear();
    error_ = std::current_exception();
  }
  base::refill_spare_memory();
}

bool StateSaver::writes_manifest() const {
  return options_.processes == nullptr || options_.processes->is_coordinator();
}

void StateSaver::prune() {
  try {
    options_.store.prune(options_.keep, options_.keep_every);
  } catch (const base::Error& error) {
    outcome_ += fmt::format("; older ones cannot be removed: {}", error.problem().got);
  }
}

void StateSaver::wait() {
  if (!writer_.joinable()) return;
  writer_.join();
  log_outcome();
}

void StateSaver::log_outcome() const {
  if (options_.log && !outcome_.empty()) options_.log(outcome_);
}

checkpoint::Manifest manifest_header(const recipe::Recipe& recipe) {
  checkpoint::Manifest header{.position = {.seed = recipe.train.seed},
                              .optimizer = recipe.optimizer.name,
                              .model = {},
                              .code_version = {},
                              .files = {},
                              .tensors = {}};
  for (const recipe::Setting& setting : recipe::settings_of(recipe))
    if (setting.key.starts_with("model.") || (recipe.model.lora.is_on() && setting.key.starts_with("lora.")))
      header.model[setting.key] = setting.value;
  return header;
}

}  // namespace megacpp::train
