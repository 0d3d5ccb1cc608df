// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>

#include "megacpp/base/error.h"
#include "megacpp/compile/compile.h"
#include "megacpp/model/model.h"
#include "megacpp/plan/plan.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/train/load_state.h"
#include "megacpp/train/run_state.h"

namespace megacpp::train {
namespace {

constexpr const char* kLoss = "ce";
constexpr int32_t kMasked = -1;

void check_tokens(const EvaluateRequest& request, int64_t vocab) {
  MEGACPP_REQUIRE(request.tokens.size() >= 2, E1101,
                  {.where = "held-out text",
                   .got = fmt::format("{} tokens", request.tokens.size()),
                   .wanted = "at least two: one to predict the next from",
                   .next = "give a longer text"});
  for (const int32_t id : request.tokens)
    MEGACPP_REQUIRE(id >= 0 && id < vocab, E1102,
                    {.where = "held-out text",
                     .got = fmt::format("id {}", id),
                     .wanted = fmt::format("ids from 0 to {}", vocab - 1),
                     .next = "use the tokenizer that the model was trained with"});
}

/// A pipeline runs its stages along a schedule with backward passes; elsewhere there is the forward pass alone.
compile::Compiled compile_loss(const recipe::Recipe& recipe, const plan::Plan& plan, const schedule::Target& target) {
  const ir::DType compute = recipe.train.precision == "bf16" ? ir::DType::bf16 : ir::DType::f32;
  model::ForwardModel forward =
      model::build_forward(recipe.model, {recipe.train.batch, recipe.train.sequence, compute}, plan);
  if (plan.stages == 1) return compile::compile_forward(std::move(forward), plan, target);
  return compile::compile_gradients({.forward = std::move(forward), .plan = plan}, target);
}

/// The rows of one batch: [sequences, length] each.
struct Rows {
  std::vector<int32_t> ids, labels, segments, document_positions;
  int64_t counted = 0;  // labels that are not masked
};

class Evaluator {
 public:
  Evaluator(const recipe::Recipe& recipe, const checkpoint::TensorMap& weights, const EvaluateRequest& request)
      : recipe_(recipe), request_(request), plan_(plan::make_plan(recipe)) {
    const schedule::Target target = runtime::target_for(recipe, plan_.parallel.mesh);
    compiled_ = compile_loss(recipe, plan_, target);
    runtime::LoadOptions loading = runtime::load_options(recipe, compiled_.mesh.chips());
    loading.fetches = {kLoss};
    run_ = runtime::load_for(recipe, compiled_, loading);
    state_ = std::make_unique<RunState>(compiled_, *run_);
    load_weights(weights, compiled_, *run_);
    if (state_->stages("batch.positions")) stage("batch.positions", positions());
  }

  Evaluation run() {
    const int64_t per_batch = recipe_.train.batch * recipe_.train.sequence;
    const int64_t predicted = std::ssize(request_.tokens) - 1;
    double nats = 0;
    for (int64_t first = 0; first < predicted; first += per_batch) {
      const Rows rows = rows_from(first);
      stage("batch.ids", rows.ids);
      stage("batch.labels", rows.labels);
      if (state_->stages("batch.segments")) stage("batch.segments", rows.segments);
      if (state_->stages("batch.document_positions")) stage("batch.document_positions", rows.document_positions);
      run_->run_step(runtime::StepMode::plain);
      nats += state_->output(kLoss).begin()->second.at(0) * static_cast<double>(rows.counted);
      if (request_.on_batch) request_.on_batch(std::min(first + per_batch, predicted), predicted);
    }
    return {.loss = nats / static_cast<double>(predicted),
            .tokens = predicted,
            .bits_per_byte = nats / std::numbers::ln2 / static_cast<double>(std::max<int64_t>(request_.bytes, 1))};
  }

 private:
  std::vector<int32_t> positions() const {
    std::vector<int32_t> positions(static_cast<size_t>(recipe_.train.sequence));
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }

  void stage(const std::string& input, const std::vector<int32_t>& rows) {
    state_->stage<int32_t>(input, 0, in_stored_order(rows, compiled_.time_order, recipe_.train.sequence));
  }

  /// Positions behind the end of the text are masked.
  Rows rows_from(int64_t first) const {
    Rows rows;
    const int64_t count = recipe_.train.batch * recipe_.train.sequence, end = std::ssize(request_.tokens) - 1;
    for (int64_t at = first; at < first + count; ++at) {
      const bool is_text = at < end;
      rows.ids.push_back(is_text ? request_.tokens[static_cast<size_t>(at)] : 0);
      rows.labels.push_back(is_text ? request_.tokens[static_cast<size_t>(at) + 1] : kMasked);
      const auto document = std::ranges::upper_bound(request_.begins, at) - request_.begins.begin();
      const bool begins = at % recipe_.train.sequence == 0 || rows.segments.back() != document;
      rows.document_positions.push_back(begins ? 0 : rows.document_positions.back() + 1);
      rows.segments.push_back(static_cast<int32_t>(document));
      rows.counted += is_text ? 1 : 0;
    }
    return rows;
  }

  const recipe::Recipe& recipe_;
  const EvaluateRequest& request_;
  plan::Plan plan_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
  std::unique_ptr<RunState> state_;
};

}  // namespace

Evaluation evaluate(const recipe::Recipe& recipe, const checkpoint::TensorMap& weights,
                    const EvaluateRequest& request) {
  check_tokens(request, recipe.model.vocab);
  return Evaluator(recipe, weights, request).run();
}

}  // namespace megacpp::train
