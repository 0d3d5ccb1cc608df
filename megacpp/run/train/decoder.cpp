// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/decoder.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/run/train/load_state.h"

namespace megacpp::train {
namespace {

// Short enough that strings of them, which every step makes, need no heap.
constexpr const char* kLogits = "logits";
constexpr const char* kIds = "batch.ids";
constexpr const char* kPositions = "batch.positions";
constexpr int32_t kNotFilled = std::numeric_limits<int32_t>::max();
constexpr int64_t kLargestChunk = 64;  // tokens: weights are read once for so many, and logits of all stay small

/// Chunks of equal size that leave few of the known tokens over; 1 where there are too few.
int64_t chunk_of(int64_t known) {
  if (known < 2) return 1;
  const int64_t chunks = (known + kLargestChunk - 1) / kLargestChunk;
  return known / chunks;
}

recipe::Recipe recipe_for(const recipe::Model& model, const DecoderOptions& options) {
  recipe::Recipe recipe;
  recipe.name = model.name;
  recipe.model = model;
  recipe.train.batch = options.sequences;
  recipe.train.sequence = options.length;
  recipe.train.steps = 1;
  recipe.train.threads = options.threads;
  return recipe;
}

}  // namespace

Decoder::Decoder(const recipe::Model& model, const checkpoint::TensorMap& weights, const DecoderOptions& options)
    : options_(options),
      vocab_(model.vocab),
      step_tokens_(chunk_of(std::min(options.prompt, options.length))),
      step_(load(model, weights, 1)),
      chunk_(step_tokens_ > 1 ? load(model, weights, step_tokens_) : nullptr),
      positions_(static_cast<size_t>(step_tokens_)) {
  int64_t largest = 0;
  for (const std::string& name : state_)
    largest = std::max(largest, step_->compiled.stages[0].find_state(name)->whole.bytes());
  moved_.resize(static_cast<size_t>(largest));
  for (const compile::StateTensor& tensor : step_->compiled.stages[0].state)
    if (tensor.staged_as.starts_with(model::kSlotsPrefix))
      slots_.push_back({tensor.staged_as, std::vector<int32_t>(static_cast<size_t>(tensor.whole.dim(0)))});
  reset();
}

std::unique_ptr<Decoder::Program> Decoder::load(const recipe::Model& model, const checkpoint::TensorMap& weights,
                                                int64_t tokens) {
  const recipe::Recipe recipe = recipe_for(model, options_);
  const runtime::Backend& backend = runtime::backend_named(recipe.backend);
  model::ForwardModel decoding = model::build_decoding(model, {.sequences = options_.sequences,
                                                               .length = options_.length,
                                                               .tokens = tokens,
                                                               .step_tokens = step_tokens_,
                                                               .compute = options_.compute});
  state_.clear();  // all programs have the same
  for (const blocks::StatePort& port : decoding.state) state_.push_back(port.name);
  const plan::Plan one_chip;
  auto program = std::make_unique<Program>();
  program->tokens = tokens;
  program->compiled = compile::compile_forward(
      std::move(decoding), one_chip, runtime::target_on(backend, recipe::run_request(recipe), one_chip.parallel.mesh));
  runtime::LoadOptions loading = runtime::load_options(recipe::run_request(recipe), 1);
  loading.fetches = {kLogits};
  program->run = runtime::load_on(backend, recipe::run_request(recipe), program->compiled, loading);
  program->logits.resize(static_cast<size_t>(options_.sequences * tokens * vocab_));
  program->reads_positions = program->run->stages(kPositions, 0);
  load_weights(weights, program->compiled, *program->run);
  return program;
}

void Decoder::reset() {
  position_ = 0;
  for (Slots& each : slots_) std::ranges::fill(each.positions, kNotFilled);
  holder_ = chunk_ ? chunk_.get() : step_.get();
  std::ranges::fill(moved_, std::byte{0});
  for (const std::string& name : state_) {
    const auto bytes = static_cast<size_t>(holder_->compiled.stages[0].find_state(name)->whole.bytes());
    holder_->run->write_state(name, 0, std::span(moved_).first(bytes));
  }
}

void Decoder::move_state(Program& to) {
  for (const std::string& name : state_) {
    const auto bytes = static_cast<size_t>(to.compiled.stages[0].find_state(name)->whole.bytes());
    const std::span<std::byte> moved = std::span(moved_).first(bytes);
    holder_->run->read_state(name, 0, moved);
    to.run->write_state(name, 0, moved);
  }
  holder_ = &to;
}

std::span<const float> Decoder::run(Program& program, std::span<const int32_t> ids) {
  MEGACPP_CHECK(std::ssize(ids) == options_.sequences * program.tokens && position_ + program.tokens <= options_.length)
      << ids.size() << " tokens at position " << position_;
  if (holder_ != &program) move_state(program);
  runtime::Executable& run = *program.run;
  const std::span<int32_t> positions = std::span(positions_).first(static_cast<size_t>(program.tokens));
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position_));
  for (Slots& each : slots_) {
    for (const int32_t position : positions)
      each.positions[static_cast<size_t>(position) % each.positions.size()] = position;
    run.stage_batch(each.input, 0, 0, std::as_bytes(std::span(each.positions)));
  }
  run.stage_batch(kIds, 0, 0, std::as_bytes(ids));
  if (program.reads_positions) run.stage_batch(kPositions, 0, 0, std::as_bytes(positions));
  run.run_step(runtime::StepMode::plain);
  run.fetch_into(kLogits, 0, std::as_writable_bytes(std::span(program.logits)));
  position_ += program.tokens;
  return program.logits;
}

std::span<const float> Decoder::step(std::span<const int32_t> ids) { return run(*step_, ids); }

std::span<const float> Decoder::read_chunk(std::span<const int32_t> ids) { return run(chunk_ ? *chunk_ : *step_, ids); }

}  // namespace megacpp::train
