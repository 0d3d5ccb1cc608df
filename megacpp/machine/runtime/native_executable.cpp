// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/native_executable.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace megacpp::runtime {

NativeExecutable::NativeExecutable(const compile::Compiled& compiled, const LoadOptions& options, NativeBackend backend)
    : Executable(compiled, options.fetches),
      backend_(std::move(backend)),
      faults_(options.faults),
      should_stop_(options.should_stop_in_step),
      threads_(backend_.world->local_chips(), [this](int64_t chip, const std::string& what) {
        keep_flight();
        backend_.world->abort(chip, what);  // so that nobody waits for it
      }) {
  const auto start = std::chrono::steady_clock::now();
  if (compiled.mesh.chips() > 1 && options.on_hang)
    watch_.emplace(HangWatch::Options{.has_failed = [world = backend_.world] { return world->has_failed(); },
                                      .limit = hang_limit(options.wait_limit),
                                      .on_hang = [this, say = options.on_hang] { say(hang_error()); }});
  for (const int64_t chip : local_chips()) {
    fail_if_injected({.chip = chip, .cls = memory::OomClass::load});
    const NativeChip::Options own{
        .chip = chip,
        .timer = {.per_op = options.profile, .trace_steps = options.trace_steps, .trace_from = start},
        .limit_bytes = backend_.limits.at(chip)};
    chips_[chip] = std::make_unique<NativeChip>(compiled.programs_of(chip), ports(chip), backend_.device(chip), own);
  }
  counters_.compiles["kernels prepared"] = 1;
  counters_.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<base::TimedPart> NativeExecutable::load_parts() const {
  if (backend_.load_parts) return backend_.load_parts(counters_.compile_seconds);
  return {{.name = "kernels", .seconds = counters_.compile_seconds}};
}

std::optional<int64_t> NativeExecutable::state_bytes(const std::string& name, int64_t chip) const {
  return at(chip).state_bytes(name);
}

// The host waits for its chips' threads at the end of every step, and for the chips where these do.
void NativeExecutable::run_step(StepMode mode) {
  const int64_t step = steps_++;
  counters_.executions += 1;
  if (waits_for_steps()) counters_.host_syncs += 1;
  const auto start = std::chrono::steady_clock::now();
  is_in_step_ = true;
  try {
    const HangWatch::Step watched(watch_ ? &*watch_ : nullptr);
    threads_.run([this, step, mode](int64_t chip) { run_chip(chip, step, mode); });
  } catch (const StoppedInStep&) {
    if (backend_.flight) backend_.flight->drop();
    throw;
  }
  is_in_step_ = false;
  if (step > 0) {
    warm_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return;
  }
  for (const auto& [number, chip] : chips_) chip->timer().clear();
}

base::Error NativeExecutable::hang_error() const {
  std::string chips;
  for (const int64_t chip : local_chips()) chips += (chips.empty() ? "" : ", ") + std::to_string(chip);
  return {base::Code::E3102,
          {.where = "chips " + chips + " on " + host_name(),
           .got = "a step that has not ended since the run failed",
           .wanted = "every chip to come back from its work",
           .next = "see what they did last: megacpp flight show RUN; this process is ended"}};
}

void NativeExecutable::abort(const std::string& reason) {
  keep_flight();
  backend_.world->abort(local_chips().front(), reason);
}

std::optional<StepParts> NativeExecutable::step_parts() const {
  if (!has_parts()) return std::nullopt;
  const auto slowest = std::ranges::max_element(
      chips_, {}, [](const auto& numbered) { return numbered.second->timer().parts().seconds(); });
  const StepParts& all = slowest->second->timer().parts();
  const double steps = static_cast<double>(steps_ - 1);
  return StepParts{.arithmetic = all.arithmetic / steps,
                   .memory = all.memory / steps,
                   .links = all.links / steps,
                   .bubble = all.bubble / steps,
                   .other = std::max(0.0, warm_seconds_ - all.seconds()) / steps};
}

std::optional<BusyChip> NativeExecutable::busy() const {
  if (!has_parts()) return std::nullopt;
  const auto busiest = std::ranges::max_element(
      chips_, {}, [](const auto& numbered) { return numbered.second->timer().parts().busy(); });
  return BusyChip{.chip = busiest->first,
                  .seconds = busiest->second->timer().parts().busy() / static_cast<double>(steps_ - 1)};
}

void NativeExecutable::run_chip(int64_t chip, int64_t step, StepMode mode) {
  const Fault moment{.chip = chip, .cls = memory::OomClass::runtime, .step = step};
  at(chip).begin_step();
  if (mode == StepMode::plain && at(chip).can_replay() && !is_injected_at(faults_, moment)) {
    stop_if_requested();
    at(chip).replay_step();
  } else {
    run_actions(chip, moment, mode);
  }
}

void NativeExecutable::run_actions(int64_t chip, const Fault& moment, StepMode mode) {
  const compile::StagePrograms& programs = compiled().programs_of(chip);
  for (size_t action = 0; action < programs.step.size(); ++action) {
    if (!programs.is_update(programs.step[action])) stop_if_requested();
    if (is_injected_at(faults_, moment)) {
      at(chip).run_half(action);  // others already wait for this chip then
      fail_if_injected(moment);
    }
    at(chip).run(action, mode);
  }
  at(chip).end_step();
}

// Never before the update: the gradients of all micro-steps are there, and its step is soon whole.
void NativeExecutable::stop_if_requested() const {
  if (should_stop_ && should_stop_()) throw StoppedInStep();
}

std::vector<OpSeconds> NativeExecutable::op_seconds() const {
  if (steps_ < 2 || is_in_step_) return {};
  std::map<std::pair<std::string, std::string>, double> by_op;  // and kind of program
  for (const auto& [number, chip] : chips_)
    for (const OpSeconds& op : chip->timer().op_seconds()) by_op[{op.program, op.op}] += op.seconds;
  std::vector<OpSeconds> total;
  for (const auto& [name, seconds] : by_op)
    if (seconds > 0)
      total.push_back({.program = name.first, .op = name.second, .seconds = seconds / static_cast<double>(steps_ - 1)});
  std::ranges::stable_sort(total, std::greater<>(), &OpSeconds::seconds);
  return total;
}

void NativeExecutable::put_state(const compile::StateTensor& tensor, int64_t chip, std::span<const std::byte> part) {
  count_upload(part.size());
  at(chip).write_state(tensor.name, part);
}

void NativeExecutable::make_state(const compile::StateTensor& tensor, int64_t chip, const FillPiece& fill) {
  count_upload(static_cast<size_t>(at(chip).state_bytes(tensor.name).value()));
  at(chip).fill_state(tensor.name, fill);
}

void NativeExecutable::get_state(const compile::StateTensor& tensor, int64_t chip, std::span<std::byte> part) const {
  count_download(part.size());
  at(chip).read_state(tensor.name, part);
}

void NativeExecutable::put_batch(const StagedInput& input, int64_t micro, int64_t chip,
                                 std::span<const std::byte> part) {
  count_upload(part.size());
  at(chip).stage(input, micro, part);
}

void NativeExecutable::get_output(const FetchedOutput& output, int64_t chip, std::span<std::byte> values) const {
  count_download(values.size());
  at(chip).read_output(output, values);
}

void NativeExecutable::fail_if_injected(const Fault& moment) const {
  if (is_injected_at(faults_, moment)) throw injected_error(moment, compiled(), backend_.limits.at(moment.chip));
}

void NativeExecutable::count_upload(size_t bytes) {
  counters_.host_to_device.count += 1;
  counters_.host_to_device.bytes += static_cast<int64_t>(bytes);
}

void NativeExecutable::count_download(size_t bytes) const {
  counters_.host_syncs += 1;
  counters_.device_to_host.count += 1;
  counters_.device_to_host.bytes += static_cast<int64_t>(bytes);
}

}  // namespace megacpp::runtime
