// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/run_state.h"

#include <algorithm>
#include <cstring>

#include "megacpp/base/error.h"
#include "megacpp/base/thread_pool.h"
#include "megacpp/runtime/cpu/cpu_backend.h"

namespace megacpp::train {

const partition::Placement* RunState::find(const partition::Placements& placements, const std::string& name) {
  const auto at = placements.find(name);
  return at == placements.end() ? nullptr : &at->second;
}

bool RunState::reads(const std::string& batch_input) const {
  for (const compile::StagePrograms& stage : compiled_.stages)
    for (const compile::Action& action : stage.step)
      if (action.reads_batch && stage.inputs.contains(action.prefix + batch_input)) return true;
  return false;
}

void RunState::collect(int64_t chip, size_t program, const std::string& output, std::vector<float>& whole) const {
  const partition::Placement& placement = compiled_.programs_of(chip).outputs.at(program).at(output);
  whole.resize(static_cast<size_t>(placement.whole.elements()));
  copy_out(placement, chip, run_.output(program, output, chip), std::as_writable_bytes(std::span(whole)));
}

void RunState::initialise_weights(uint64_t seed) {
  constexpr int64_t kGrain = 1 << 14;  // elements a thread takes at a time
  base::ThreadPool threads(runtime::cpu::available_threads());
  for (const blocks::Parameter& parameter : compiled_.parameters)
    for (const int64_t chip : run_.local_chips()) {
      const partition::Placement* placement = find(compiled_.programs_of(chip).inputs, parameter.name);
      if (placement == nullptr) continue;
      scratch().assign(part_bytes(*placement), std::byte{0});
      float* const part = reinterpret_cast<float*>(scratch().data());
      for (const ir::LocalRun& piece :
           ir::local_runs(placement->whole.shape, placement->sharding, compiled_.mesh, chip))
        threads.parallel_for(piece.count, kGrain, [&](int64_t begin, int64_t end, int) {
          blocks::initialise(parameter, seed, piece.whole + begin,
                             {part + piece.local + begin, static_cast<size_t>(end - begin)});
        });
      run_.write_state(parameter.name, chip, scratch());
    }
  std::vector<std::byte>().swap(scratch());  // steps move far smaller parts
}

bool RunState::is_anywhere(const std::string& name) const {
  return std::any_of(compiled_.stages.begin(), compiled_.stages.end(),
                     [&](const compile::StagePrograms& stage) { return stage.inputs.contains(name); });
}

void RunState::require_all_local(const std::string& name, const partition::Placement& placement) const {
  const bool is_split = placement.sharding != ir::Sharding::replicated(placement.whole.shape.size());
  MEGACPP_CHECK(!is_split || std::ssize(run_.local_chips()) == run_.chips())
      << "'" << name << "' is split over chips of other processes";
}

void RunState::write_bytes(int64_t chip, const std::string& name, std::span<const std::byte> whole) {
  const partition::Placement* placement = find(compiled_.programs_of(chip).inputs, name);
  if (placement == nullptr) return;
  const int64_t wanted = placement->whole.bytes(), got = static_cast<int64_t>(whole.size());
  MEGACPP_REQUIRE(got == wanted, E1203,
                  {.where = name, .got = std::to_string(got) + " bytes", .wanted = std::to_string(wanted) + " bytes"});
  const int64_t size = dtype_bytes(placement->whole.dtype);
  scratch().assign(part_bytes(*placement), std::byte{0});
  std::byte* const part = scratch().data();
  for (const ir::LocalRun& piece : ir::local_runs(placement->whole.shape, placement->sharding, compiled_.mesh, chip))
    std::memcpy(part + piece.local * size, whole.data() + piece.whole * size, static_cast<size_t>(piece.count * size));
  run_.write_state(name, chip, scratch());
}

std::vector<std::byte>& RunState::scratch() {
  static thread_local std::vector<std::byte> bytes;
  return bytes;
}

size_t RunState::part_bytes(const partition::Placement& placement) const {
  const ir::Shape shape = ir::local_shape(placement.whole.shape, placement.sharding, compiled_.mesh);
  return static_cast<size_t>(ir::TensorType{placement.whole.dtype, shape}.bytes());
}

void RunState::read_part(int64_t chip, const std::string& name, const partition::Placement& placement) const {
  scratch().resize(part_bytes(placement));
  run_.read_state(name, chip, scratch());
}

void RunState::copy_out(const partition::Placement& placement, int64_t chip, std::span<const std::byte> part,
                        std::span<std::byte> whole) const {
  MEGACPP_CHECK(placement.sharding.unreduced.empty()) << "partial sums are read";
  const int64_t size = dtype_bytes(placement.whole.dtype);
  for (const ir::LocalRun& piece : ir::local_runs(placement.whole.shape, placement.sharding, compiled_.mesh, chip))
    std::memcpy(whole.data() + piece.whole * size, part.data() + piece.local * size,
                static_cast<size_t>(piece.count * size));
}

template <typename T>
std::vector<T> in_stored_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                               int64_t width) {
  std::vector<T> result(rows.size());
  const int64_t row = sequence * width, run = row / static_cast<int64_t>(time_order.size());
  auto stored = result.begin();
  for (auto sequence_begin = rows.begin(); sequence_begin != rows.end(); sequence_begin += row)
    for (const int64_t time : time_order) stored = std::copy_n(sequence_begin + time * run, run, stored);
  return result;
}

// What lies at place r of the stored order belongs at time_order[r]: the opposite order brings it there.
template <typename T>
std::vector<T> in_time_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                             int64_t width) {
  std::vector<int64_t> place(time_order.size());
  for (size_t r = 0; r < time_order.size(); ++r) place[static_cast<size_t>(time_order[r])] = static_cast<int64_t>(r);
  return in_stored_order(rows, place, sequence, width);
}

template std::vector<int32_t> in_stored_order(const std::vector<int32_t>&, const std::vector<int64_t>&, int64_t,
                                              int64_t);
template std::vector<float> in_stored_order(const std::vector<float>&, const std::vector<int64_t>&, int64_t, int64_t);
template std::vector<float> in_time_order(const std::vector<float>&, const std::vector<int64_t>&, int64_t, int64_t);

}  // namespace megacpp::train
