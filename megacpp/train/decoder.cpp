// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/decoder.h"

#include <algorithm>
#include <limits>

#include "megacpp/base/error.h"
#include "megacpp/compile/compile.h"
#include "megacpp/model/model.h"
#include "megacpp/plan/plan.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/train/load_state.h"

namespace megacpp::train {
namespace {

constexpr const char* kLogits = "logits";
constexpr int32_t kNotFilled = std::numeric_limits<int32_t>::max();

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
    : logits_(static_cast<size_t>(options.sequences * model.vocab)), options_(options), vocab_(model.vocab) {
  const recipe::Recipe recipe = recipe_for(model, options);
  const runtime::Backend& backend = runtime::backend_named(recipe.backend);
  model::ForwardModel decoding = model::build_decoding(model, {options.sequences, options.length});
  for (const blocks::StatePort& port : decoding.state) state_.push_back(port.name);
  const plan::Plan one_chip;
  compiled_ = compile::compile_forward(std::move(decoding), one_chip,
                                       runtime::target_on(backend, recipe, one_chip.parallel.mesh));
  runtime::LoadOptions loading = runtime::load_options(recipe, 1);
  loading.fetches = {kLogits};
  run_ = runtime::load_on(backend, recipe, compiled_, loading);
  load_weights(weights, compiled_, *run_);
  for (const compile::StateTensor& tensor : compiled_.stages[0].state)
    if (tensor.staged_as.starts_with(model::kSlotsPrefix))
      slots_.push_back({tensor.staged_as, std::vector<int32_t>(static_cast<size_t>(tensor.whole.dim(0)))});
  reset();
}

void Decoder::reset() {
  position_ = 0;
  for (Slots& each : slots_) std::ranges::fill(each.positions, kNotFilled);
  for (const std::string& name : state_) {
    const compile::StateTensor& tensor = *compiled_.stages[0].find_state(name);
    const std::vector<std::byte> zeros(static_cast<size_t>(tensor.whole.bytes()));
    run_->write_state(name, 0, zeros);
  }
}

std::span<const float> Decoder::step(std::span<const int32_t> ids) {
  MEGACPP_CHECK(std::ssize(ids) == options_.sequences && position_ < options_.length)
      << ids.size() << " tokens at position " << position_;
  const auto position = static_cast<int32_t>(position_);
  for (Slots& each : slots_) {
    each.positions[static_cast<size_t>(position_) % each.positions.size()] = position;
    run_->stage_batch(each.input, 0, 0, std::as_bytes(std::span(each.positions)));
  }
  run_->stage_batch("batch.ids", 0, 0, std::as_bytes(ids));
  if (run_->stages("batch.positions", 0))
    run_->stage_batch("batch.positions", 0, 0, std::as_bytes(std::span(&position, 1)));
  run_->run_step(runtime::StepMode::plain);
  run_->fetch_into(kLogits, 0, std::as_writable_bytes(std::span(logits_)));
  ++position_;
  return logits_;
}

}  // namespace megacpp::train
