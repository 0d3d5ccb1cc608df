// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/optim/update.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/optim/parameter_groups.h"

namespace megacpp::optim {
namespace {

using blocks::Parameter;
using ir::DType;
using ir::Role;
using ir::ValueId;
using ops::Builder;

// The scope of a parameter's state is the block it belongs to: "block03.M.out_proj" -> "block03.M", "embed.weight" ->
// "embed".
std::string scope_of(const std::string& parameter) {
  const size_t first = parameter.find('.'), second = parameter.find('.', first + 1);
  const bool in_block = parameter.rfind("block", 0) == 0 && second != std::string::npos;
  return parameter.substr(0, in_block ? second : first);
}

class UpdateBuilder {
 public:
  UpdateBuilder(const OptimizerDef& optimizer, const Optimizer& settings, const UpdateTargets& targets)
      : optimizer_(optimizer), settings_(settings), targets_(targets), graph_("update"), b_(graph_) {
    b_.set_scope("update");
    lr_ = b_.input("lr", {DType::f32, {}}, Role::batch);
    step_ = b_.input("step", {DType::f32, {}}, Role::batch);
  }

  ir::Graph run() {
    for (size_t i = 0; i < targets_.parameters.size(); ++i)
      if (targets_.parameters[i].trainable)
        states_.push_back(
            read(targets_.parameters[i], targets_.shardings.empty() ? StateShardings{} : targets_.shardings[i]));
    const ValueId norm = global_norm();
    graph_.add_output({.name = "grad_norm", .value = norm});
    const ValueId scale = clip_scale(norm);
    if (optimizer_.shared != nullptr) shared_ = optimizer_.shared(b_, settings_, step_);
    for (const State& state : states_) update(state, scale);
    for (const BiasBalance& balance : targets_.balances) steer(balance);
    return std::move(graph_);
  }

 private:
  struct State {
    const Parameter* parameter;
    StateShardings shardings;
    ValueId weight, gradient;
    std::vector<StateTensor> tensors;  // of the optimizer
    std::vector<ValueId> values;       // theirs
  };

  State read(const Parameter& parameter, const StateShardings& shardings) {
    b_.set_scope(scope_of(parameter.name));
    const ir::TensorType type{DType::f32, parameter.shape};
    const ValueId weight = b_.input(parameter.name, type, Role::weight, shardings.weight);
    const ValueId gradient = b_.input(gradient_name(parameter.name), type, Role::gradient, shardings.gradient);
    State state{.parameter = &parameter,
                .shardings = shardings,
                .weight = weight,
                .gradient = added_up(parameter.name, resharded(gradient, shardings.gradient, shardings.update)),
                .tensors = state_of(optimizer_, parameter, ir::Sharding::replicated(parameter.shape.size())),
                .values = {}};
    for (size_t i = 0; i < state.tensors.size(); ++i) {
      const StateTensor& tensor = state.tensors[i];
      state.values.push_back(
          b_.input(tensor.name, tensor.type, tensor.role, shardings.state.empty() ? "" : shardings.state[i]));
    }
    return state;
  }

  // `cause` is what a collective for it reports; empty: the plan.
  ValueId resharded(ValueId x, const std::string& from, const std::string& to, const std::string& cause = "") {
    if (from == to) return x;
    ir::Attrs attrs = {{"from", from}, {"to", to}};
    if (!cause.empty()) attrs.set("cause", cause);
    return b_.one("reshard", {x}, std::move(attrs));
  }

  // Matrix by matrix, each of them whole: gathered as far as it is split. The result is cut to the parts of the weight
  // that a chip stores, so that no weight need be gathered after it has moved.
  ValueId mapped(const State& state, ValueId direction) {
    const StateShardings& shardings = state.shardings;
    const std::string cause = std::string(optimizer_.matrices->name) + " of " + state.parameter->name;
    const ValueId whole = resharded(direction, shardings.update, shardings.matrices, cause);
    const ValueId found = optimizer_.matrices->map({.builder = b_, .settings = settings_, .value = whole});
    return b_.convert(resharded(found, shardings.matrices, shardings.weight, cause), DType::f32);
  }

  // Blocks add their squares to the sum one after the other, each in its own scope, as every block of its kind does.
  ValueId global_norm() {
    b_.set_scope("update.norm");
    ValueId sum = b_.constant(0.0);
    for (const State& state : states_) {
      b_.set_scope(scope_of(state.parameter->name));
      const ValueId squares = b_.sum_all(b_.square(state.gradient));
      const StageLinks::Shared* shared = find_shared(state.parameter->name);
      // Counted once, but read by every stage that holds it: so all of them exchange it before they add up the norm,
      // and none waits for a stage that waits for it.
      const bool is_counted = shared == nullptr || shared->is_counted;
      sum = b_.add(sum, is_counted ? squares : b_.scale(squares, 0.0));
    }
    b_.set_scope("update.norm");
    if (targets_.links.stages > 1)
      sum = b_.one("all_reduce", {sum},
                   {{"axes", std::string("stage")},
                    {"parts", targets_.links.stages},
                    {"kind", std::string("sum")},
                    {"cause", std::string("the gradient norm of all stages")}});
    return b_.sqrt(sum);
  }

  const StageLinks::Shared* find_shared(const std::string& parameter) const {
    const auto at = std::find_if(targets_.links.shared.begin(), targets_.links.shared.end(),
                                 [&](const StageLinks::Shared& one) { return one.parameter == parameter; });
    return at == targets_.links.shared.end() ? nullptr : &*at;
  }

  // The gradient of a parameter that two stages hold is the sum of theirs.
  ValueId added_up(const std::string& parameter, ValueId gradient) {
    const StageLinks::Shared* shared = find_shared(parameter);
    if (shared == nullptr) return gradient;
    return b_.one("exchange_sum", {gradient},
                  {{"axes", std::string("stage")},
                   {"peer", shared->peer},
                   {"tag", shared - targets_.links.shared.data()},
                   {"cause", parameter + " is held by two stages"}});
  }

  // min(1, clip / norm)
  ValueId clip_scale(ValueId norm) {
    if (settings_.clip == 0) return b_.constant(1.0);
    const ValueId one = b_.constant(1.0);
    const ValueId clip = b_.constant(settings_.clip);
    const ValueId positive_norm = b_.offset(norm, 1e-6);
    return b_.min(one, b_.div(clip, positive_norm));
  }

  // weight - lr * (direction + decay)
  void update(const State& state, ValueId scale) {
    b_.set_scope(scope_of(state.parameter->name));
    const Direction found = optimizer_.direction({.builder = b_,
                                                  .settings = settings_,
                                                  .parameter = *state.parameter,
                                                  .weight = state.weight,
                                                  .gradient = b_.mul(state.gradient, scale),
                                                  .state = state.values,
                                                  .shared = shared_,
                                                  .sharding = state.shardings.update});
    MEGACPP_CHECK(found.state.size() == state.tensors.size())
        << optimizer_.name << " leaves " << found.state.size() << " of " << state.tensors.size() << " state tensors";
    const bool is_mapped = maps_matrices(optimizer_, *state.parameter);
    ValueId direction = is_mapped ? mapped(state, found.value) : found.value;
    if (is_decayed(settings_, *state.parameter))
      direction = b_.add(direction, b_.scale(state.weight, settings_.weight_decay));
    const std::string& name = state.parameter->name;
    const ValueId weight = b_.sub(state.weight, b_.mul(direction, lr_));
    replace(name, is_mapped ? weight : resharded(weight, state.shardings.update, state.shardings.weight));
    for (size_t i = 0; i < found.state.size(); ++i) replace(state.tensors[i].name, found.state[i]);
    if (targets_.zeroes_gradients) replace(gradient_name(name), b_.constant_like(0.0, state.gradient));
  }

  // b += rate * sign(mean requests - requests), then the counts start again from zero. Both sides are multiplied by the
  // number of experts: whole numbers have no rounding that depends on the order in which chips add them up.
  void steer(const BiasBalance& balance) {
    b_.set_scope(scope_of(balance.bias));
    const ir::TensorType type{DType::f32, {balance.experts}};
    const ValueId bias = b_.input(balance.bias, type, Role::weight);
    const ValueId counts = b_.input(balance.counts, type, Role::gradient, balance.sharding);
    const ValueId all = b_.broadcast(b_.sum_all(counts), type.shape, {});
    const ValueId sign = b_.unary("sign", b_.sub(all, b_.scale(counts, static_cast<double>(balance.experts))));
    replace(balance.bias, b_.add(bias, b_.scale(sign, balance.rate)));
    replace(balance.counts, b_.constant_like(0.0, counts));
  }

  void replace(const std::string& state, ValueId value) {
    graph_.add_output({.name = state, .value = value, .donated = state});
  }

  const OptimizerDef& optimizer_;
  const Optimizer& settings_;
  const UpdateTargets& targets_;
  ir::Graph graph_;
  Builder b_;
  ValueId lr_, step_;
  std::vector<ValueId> shared_;  // by the optimizer, for all parameters
  std::vector<State> states_;
};

}  // namespace

std::string gradient_name(const std::string& parameter) { return "grad." + parameter; }

ir::Graph build_update(const OptimizerDef& optimizer, const Optimizer& settings, const UpdateTargets& targets) {
  return UpdateBuilder(optimizer, settings, targets).run();
}

}  // namespace megacpp::optim
