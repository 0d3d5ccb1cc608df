// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/run_state.h"

#include <algorithm>
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/runtime/processor.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/compile/state_table.h"

namespace megacpp::train {

RunState::RunState(const compile::Compiled& compiled, runtime::Executable& run) : compiled_(compiled), run_(run) {
  for (const compile::StagePrograms& stage : compiled.stages)
    for (const compile::StateTensor& tensor : stage.state)
      if (!tensor.staged_as.empty()) inputs_.insert(tensor.staged_as);
  for (const int64_t chip : run.local_chips()) {
    auto& staged = staged_.emplace_back();
    for (const compile::StateTensor& tensor : compiled.programs_of(chip).state)
      if (!tensor.staged_as.empty()) staged.emplace(tensor.staged_as, part_of(tensor, chip));
  }
}

bool RunState::stages(const std::string& input) const { return inputs_.contains(input); }

std::vector<int64_t> RunState::local_rows(const std::string& input) const {
  std::set<int64_t> rows;
  for (const auto& staged : staged_) {
    const auto at = staged.find(input);
    if (at == staged.end()) continue;
    const ir::TensorType& whole = at->second.tensor->whole;  // [batch, sequence]
    const int64_t width = whole.elements() / whole.shape.front();
    for (const ir::LocalRun& run : at->second.runs)
      for (int64_t row = run.whole / width; row <= (run.whole + run.count - 1) / width; ++row) rows.insert(row);
  }
  return {rows.begin(), rows.end()};
}

void RunState::initialise_weights(uint64_t seed) {
  initialise(seed, [](std::string_view) { return true; });
}

void RunState::initialise_adapters(uint64_t seed) { initialise(seed, blocks::is_adapter); }

// Elements [first, first + values.size()) of a chip's part; zeros where it is padded.
void RunState::draw(const DrawnPart& of, int64_t first, std::span<float> values) {
  const std::vector<ir::LocalRun>& runs = of.part.runs;
  const int64_t end = first + static_cast<int64_t>(values.size());
  auto run = std::ranges::upper_bound(runs, first, {}, &ir::LocalRun::local);
  if (run != runs.begin()) --run;
  int64_t done = first;
  for (; run != runs.end() && run->local < end; ++run) {
    const int64_t from = std::max(run->local, first), to = std::min(run->local + run->count, end);
    if (from >= to) continue;
    std::fill(values.begin() + (done - first), values.begin() + (from - first), 0.0F);
    blocks::initialise(of.parameter, of.seed, run->whole + (from - run->local),
                       values.subspan(static_cast<size_t>(from - first), static_cast<size_t>(to - from)));
    done = to;
  }
  std::fill(values.begin() + (done - first), values.end(), 0.0F);
}

void RunState::initialise(uint64_t seed, bool (*is_chosen)(std::string_view parameter)) {
  constexpr int64_t kGrain = 1 << 14;  // elements a thread takes at a time
  constexpr size_t kElement = sizeof(float);
  base::ThreadPool threads(runtime::available_threads());
  for (const blocks::Parameter& parameter : compiled_.parameters)
    for (const int64_t chip : run_.local_chips()) {
      const compile::StateTensor* const tensor = compiled_.programs_of(chip).find_state(parameter.name);
      if (tensor == nullptr || !is_chosen(parameter.name)) continue;
      const ChipPart part = part_of(*tensor, chip);
      run_.fill_state(parameter.name, chip, [&](size_t begin, std::span<std::byte> bytes) {
        float* const values = reinterpret_cast<float*>(bytes.data());
        const auto first = static_cast<int64_t>(begin / kElement),
                   count = static_cast<int64_t>(bytes.size() / kElement);
        threads.parallel_for(count, kGrain, [&](int64_t from, int64_t to, int) {
          draw({parameter, seed, part}, first + from, {values + from, static_cast<size_t>(to - from)});
        });
      });
    }
}

const compile::StateTensor& RunState::state_named(const std::string& name) const {
  for (const compile::StagePrograms& stage : compiled_.stages)
    if (const compile::StateTensor* tensor = stage.find_state(name)) return *tensor;
  base::raise(base::Code::E1203, {.where = "state of the run",
                                  .got = "'" + name + "'",
                                  .wanted = "a tensor that some chip holds",
                                  .next = "use the name of a parameter or of its optimizer state"});
}

void RunState::require_all_local(const compile::StateTensor& tensor) const {
  const bool is_split = tensor.sharding != ir::Sharding::replicated(tensor.whole.shape.size());
  MEGACPP_CHECK(!is_split || std::ssize(run_.local_chips()) == run_.chips())
      << "'" << tensor.name << "' is split over chips of other processes";
}

void RunState::write_bytes(const std::string& name, std::span<const std::byte> whole) {
  state_named(name);
  for (const int64_t chip : run_.local_chips())
    if (const compile::StateTensor* tensor = compiled_.programs_of(chip).find_state(name))
      run_.write_state(name, chip, copy_in(part_of(*tensor, chip), whole));
}

void RunState::read_bytes(const std::string& name, std::span<std::byte> whole) const {
  for (const int64_t chip : run_.local_chips()) {
    const compile::StateTensor* const tensor = compiled_.programs_of(chip).find_state(name);
    if (tensor == nullptr) continue;
    require_all_local(*tensor);
    scratch_.resize(static_cast<size_t>(compile::local_type(*tensor, compiled_.mesh).bytes()));
    run_.read_state(name, chip, scratch_);
    copy_out({tensor->whole, tensor->sharding}, chip, scratch_, whole);
  }
}

void RunState::stage_bytes(const std::string& input, int64_t micro, std::span<const std::byte> whole) {
  for (size_t i = 0; i < staged_.size(); ++i) {
    const auto at = staged_[i].find(input);
    if (at != staged_[i].end()) run_.stage_batch(input, micro, run_.local_chips()[i], copy_in(at->second, whole));
  }
}

const partition::Placement& RunState::placement_of_output(const std::string& name, int64_t chip) const {
  const partition::Placement* placement = nullptr;
  for (const compile::Program& program : compiled_.programs_of(chip).programs)
    if (const auto at = program.outputs.find(name); at != program.outputs.end()) placement = &at->second;
  MEGACPP_CHECK(placement != nullptr) << "no program says how '" << name << "' is sharded";
  return *placement;
}

std::map<size_t, std::vector<float>> RunState::output(const std::string& name) const {
  std::map<size_t, std::vector<float>> by_stage;
  for (const int64_t chip : run_.local_chips()) {
    if (!run_.fetches(name, chip)) continue;
    const partition::Placement& placement = placement_of_output(name, chip);
    const std::vector<float> values = run_.fetch_f32(name, chip);
    const auto count = static_cast<size_t>(
        ir::num_elements(ir::local_shape(placement.whole.shape, placement.sharding, compiled_.mesh)));
    std::vector<float>& whole = by_stage[compiled_.stage_of(chip)];
    whole.resize(static_cast<size_t>(placement.whole.elements()));
    copy_out(placement, chip, std::as_bytes(std::span(values).last(count)), std::as_writable_bytes(std::span(whole)));
  }
  return by_stage;
}

std::vector<double> RunState::summed_output(const std::string& name) const {
  std::vector<double> whole;
  std::vector<bool> is_known;
  for (const int64_t chip : run_.local_chips()) {
    if (!run_.fetches(name, chip)) continue;
    const partition::Placement& placement = placement_of_output(name, chip);
    whole.resize(static_cast<size_t>(placement.whole.elements()));
    is_known.resize(whole.size());
    const std::vector<ir::LocalRun> pieces =
        ir::local_runs(placement.whole.shape, placement.sharding, compiled_.mesh, chip);
    const bool is_copy = std::ranges::all_of(
        pieces, [&](const ir::LocalRun& piece) { return is_known[static_cast<size_t>(piece.whole)]; });
    if (is_copy) continue;                                         // replicated: no second transfer from the devices
    const std::vector<float> values = run_.fetch_f32(name, chip);  // [micro-steps, the chip's part]
    const auto count = static_cast<size_t>(
        ir::num_elements(ir::local_shape(placement.whole.shape, placement.sharding, compiled_.mesh)));
    for (const ir::LocalRun& piece : pieces)
      for (int64_t i = 0; i < piece.count; ++i) {
        const auto to = static_cast<size_t>(piece.whole + i);
        if (is_known[to]) continue;
        is_known[to] = true;
        for (size_t at = static_cast<size_t>(piece.local + i); at < values.size(); at += count)
          whole[to] += static_cast<double>(values[at]);
      }
  }
  if (!std::ranges::all_of(is_known, [](bool known) { return known; })) return {};
  return whole;
}

RunState::ChipPart RunState::part_of(const compile::StateTensor& tensor, int64_t chip) const {
  return {.tensor = &tensor,
          .runs = ir::local_runs(tensor.whole.shape, tensor.sharding, compiled_.mesh, chip),
          .bytes = static_cast<size_t>(compile::local_type(tensor, compiled_.mesh).bytes())};
}

std::span<const std::byte> RunState::copy_in(const ChipPart& part, std::span<const std::byte> whole) {
  const compile::StateTensor& tensor = *part.tensor;
  const int64_t wanted = tensor.whole.bytes(), got = static_cast<int64_t>(whole.size());
  MEGACPP_REQUIRE(got == wanted, E1203,
                  {.where = tensor.name,
                   .got = std::to_string(got) + " bytes",
                   .wanted = std::to_string(wanted) + " bytes",
                   .next = "give the whole tensor, row-major, in its own dtype"});
  const int64_t size = dtype_bytes(tensor.whole.dtype);
  scratch_.assign(part.bytes, std::byte{0});
  for (const ir::LocalRun& piece : part.runs)
    std::memcpy(scratch_.data() + piece.local * size, whole.data() + piece.whole * size,
                static_cast<size_t>(piece.count * size));
  return scratch_;
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
void write_in_stored_order(std::span<const T> rows, const std::vector<int64_t>& time_order, int64_t sequence,
                           std::span<T> stored) {
  const int64_t run = sequence / static_cast<int64_t>(time_order.size());
  auto to = stored.begin();
  for (auto sequence_begin = rows.begin(); sequence_begin != rows.end(); sequence_begin += sequence)
    for (const int64_t time : time_order) to = std::copy_n(sequence_begin + time * run, run, to);
}

template <typename T>
std::vector<T> in_stored_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                               int64_t width) {
  std::vector<T> result(rows.size());
  write_in_stored_order<T>(rows, time_order, sequence * width, result);
  return result;
}

// Place r of the stored order belongs at time_order[r]: the opposite order brings it there.
template <typename T>
std::vector<T> in_time_order(const std::vector<T>& rows, const std::vector<int64_t>& time_order, int64_t sequence,
                             int64_t width) {
  std::vector<int64_t> place(time_order.size());
  for (size_t r = 0; r < time_order.size(); ++r) place[static_cast<size_t>(time_order[r])] = static_cast<int64_t>(r);
  return in_stored_order(rows, place, sequence, width);
}

template void write_in_stored_order(std::span<const int32_t>, const std::vector<int64_t>&, int64_t, std::span<int32_t>);
template std::vector<int32_t> in_stored_order(const std::vector<int32_t>&, const std::vector<int64_t>&, int64_t,
                                              int64_t);
template std::vector<float> in_stored_order(const std::vector<float>&, const std::vector<int64_t>&, int64_t, int64_t);
template std::vector<float> in_time_order(const std::vector<float>&, const std::vector<int64_t>&, int64_t, int64_t);

}  // namespace megacpp::train
