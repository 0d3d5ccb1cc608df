// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numbers>
#include <numeric>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/model/model.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/run/train/load_state.h"
#include "megacpp/run/train/run_state.h"

namespace megacpp::train {
namespace {

constexpr const char* kLoss = "ce";
constexpr int32_t kMasked = -1;

/// The tokens of all documents, each with the one after it.
class TokenPairs {
 public:
  struct Token {
    int32_t id = 0;
    int32_t document = 0;  // counted from 1
  };

  /// E1101 for fewer than two tokens.
  TokenPairs(const EvaluateRequest& request, int64_t vocab) : request_(request), vocab_(vocab) {
    read_ahead(1);
    MEGACPP_REQUIRE(!is_at_end(), E1101,
                    {.where = "held-out text",
                     .got = ahead_.empty() ? "no token" : "1 token",
                     .wanted = "at least two: one to predict the next from",
                     .next = "give a longer text"});
  }

  /// Whether the current token is the last.
  bool is_at_end() const { return ahead_.size() < 2; }
  const Token& current() const { return ahead_[0]; }
  const Token& following() const { return ahead_[1]; }
  void advance() {
    ahead_.pop_front();
    read_ahead(1);
  }
  /// Pairs that are left, counted up to `most`: so many tokens are then in memory.
  int64_t left(int64_t most) {
    read_ahead(most);
    return std::min(most, std::ssize(ahead_) - 1);
  }

 private:
  void read_ahead(int64_t pairs) {
    while (std::ssize(ahead_) <= pairs && read()) {
    }
  }

  /// False where there is none.
  bool read() {
    while (at_ == tokens_.size()) {
      tokens_.clear();
      at_ = 0;
      is_over_ = is_over_ || !request_.next_document(tokens_);
      if (is_over_) return false;
      ++document_;
    }
    const Token& token = ahead_.emplace_back(Token{tokens_[at_++], document_});
    MEGACPP_REQUIRE(token.id >= 0 && token.id < vocab_, E1102,
                    {.where = "held-out text",
                     .got = fmt::format("id {}", token.id),
                     .wanted = fmt::format("ids from 0 to {}", vocab_ - 1),
                     .next = "use the tokenizer that the model was trained with"});
    return true;
  }

  const EvaluateRequest& request_;
  int64_t vocab_;
  std::vector<int32_t> tokens_ = {};  // of one document
  size_t at_ = 0;                     // the next of them
  int32_t document_ = 0;
  bool is_over_ = false;  // there is no other document
  std::deque<Token> ahead_ = {};
};

/// Sequences as long as the text, where it is shorter, and as many as it has: more would be padding.
recipe::Recipe fitted_to(const recipe::Recipe& recipe, TokenPairs& pairs) {
  recipe::Recipe fitted = recipe;
  int64_t &batch = fitted.train.batch, &sequence = fitted.train.sequence;
  const int64_t left = pairs.left(batch * sequence);
  if (left < sequence) sequence = std::min(sequence, plan::shortest_sequence(recipe, left));
  const int64_t least = recipe.layout.data_parallel * recipe.layout.expert_parallel;
  batch = std::min(batch, std::max(least, (left + sequence - 1) / sequence));
  return fitted;
}

/// A pipeline runs its stages along a schedule with backward passes; elsewhere there is the forward pass alone.
compile::Compiled compile_loss(const plan::Plan& plan, const schedule::Target& target) {
  const plan::Training& training = plan.training;
  model::ForwardModel forward =
      model::build_forward(plan.model, {training.batch, training.sequence, training.precision}, plan);
  if (plan.stages == 1) return compile::compile_forward(std::move(forward), plan, target);
  return compile::compile_gradients({.forward = std::move(forward), .plan = plan}, target);
}

void require_finite_loss(double loss, int64_t predicted) {
  MEGACPP_REQUIRE(std::isfinite(loss), E1302,
                  {.where = fmt::format("held-out text, behind token {}", predicted),
                   .got = fmt::format("loss {}", loss),
                   .wanted = "a finite loss",
                   .next = "use weights without NaN and infinity: those of an earlier checkpoint, or get them again"});
}

/// The rows of one batch: [sequences, length] each.
struct Rows {
  std::vector<int32_t> ids, labels, segments, document_positions;
  int64_t counted = 0;  // labels that are not masked
};

class Evaluator {
 public:
  Evaluator(const plan::PlannedRecipe& planned, const checkpoint::TensorMap& weights)
      : training_(planned.plan().training) {
    const runtime::Backend& backend = runtime::backend_that_runs(planned.recipe());
    const recipe::RunRequest request = recipe::run_request(planned.recipe());
    compiled_ = compile_loss(planned.plan(), runtime::target_on(backend, request, planned.plan().parallel.mesh));
    runtime::LoadOptions loading = runtime::load_options(request, compiled_.mesh.chips());
    loading.fetches = {kLoss};
    run_ = runtime::load_on(backend, request, compiled_, loading);
    state_ = std::make_unique<RunState>(compiled_, *run_);
    load_weights(weights, compiled_, *run_);
    if (state_->stages("batch.positions")) stage("batch.positions", positions());
  }

  Evaluation run(TokenPairs& pairs, const std::function<void(int64_t)>& on_batch) {
    double nats = 0;
    int64_t predicted = 0;
    while (!pairs.is_at_end()) {
      const Rows rows = next_rows(pairs);
      stage("batch.ids", rows.ids);
      stage("batch.labels", rows.labels);
      if (state_->stages("batch.segments")) stage("batch.segments", rows.segments);
      if (state_->stages("batch.document_positions")) stage("batch.document_positions", rows.document_positions);
      run_->run_step(runtime::StepMode::plain);
      const double loss = state_->output(kLoss).begin()->second.at(0);
      require_finite_loss(loss, predicted);
      nats += loss * static_cast<double>(rows.counted);
      predicted += rows.counted;
      if (on_batch) on_batch(predicted);
    }
    return {.loss = nats / static_cast<double>(predicted), .tokens = predicted};
  }

 private:
  std::vector<int32_t> positions() const {
    std::vector<int32_t> positions(static_cast<size_t>(training_.sequence));
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }

  void stage(const std::string& input, const std::vector<int32_t>& rows) {
    state_->stage<int32_t>(input, 0, in_stored_order(rows, compiled_.time_order, training_.sequence));
  }

  /// Positions behind the end of the text are masked.
  Rows next_rows(TokenPairs& pairs) const {
    Rows rows;
    const int64_t count = training_.batch * training_.sequence;
    for (int64_t at = 0; at < count; ++at) {
      const bool is_text = !pairs.is_at_end();
      const int32_t document = pairs.current().document;
      rows.ids.push_back(is_text ? pairs.current().id : 0);
      rows.labels.push_back(is_text ? pairs.following().id : kMasked);
      const bool begins = at % training_.sequence == 0 || rows.segments.back() != document;
      rows.document_positions.push_back(begins ? 0 : rows.document_positions.back() + 1);
      rows.segments.push_back(document);
      rows.counted += is_text ? 1 : 0;
      if (is_text) pairs.advance();
    }
    return rows;
  }

  const plan::Training& training_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
  std::unique_ptr<RunState> state_;
};

}  // namespace

double Evaluation::bits_per_byte(int64_t bytes) const {
  return loss * static_cast<double>(tokens) / std::numbers::ln2 / static_cast<double>(std::max<int64_t>(bytes, 1));
}

Evaluation evaluate(const recipe::Recipe& recipe, const checkpoint::TensorMap& weights,
                    const EvaluateRequest& request) {
  TokenPairs pairs(request,
                   recipe.model.vocab);  // before the model is compiled: a text that is too short costs no time
  const plan::PlannedRecipe fitted(fitted_to(recipe, pairs));
  return Evaluator(fitted, weights).run(pairs, request.on_batch);
}

}  // namespace megacpp::train
