// SPDX-License-Identifier: Apache-2.0
#include "megacpp/optim/adamw.h"

#include <algorithm>
#include <cmath>

#include "megacpp/ops/builder.h"

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
  UpdateBuilder(const Optimizer& optimizer, const std::vector<StateShardings>& shardings, const StageLinks& links)
      : optimizer_(optimizer), shardings_(shardings), links_(links), graph_("update"), b_(graph_) {
    b_.set_scope("update");
    lr_ = b_.input("lr", {DType::f32, {}}, Role::batch);
    step_ = b_.input("step", {DType::f32, {}}, Role::batch);
  }

  ir::Graph run(const std::vector<Parameter>& parameters, const std::vector<BiasBalance>& balances) {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].trainable)
        states_.push_back(read(parameters[i], shardings_.empty() ? StateShardings{} : shardings_[i]));
    const ValueId norm = global_norm();
    graph_.add_output({.name = "grad_norm", .value = norm});
    const ValueId scale = clip_scale(norm);
    const ValueId correction1 = bias_correction(optimizer_.beta1), correction2 = bias_correction(optimizer_.beta2);
    for (const State& state : states_) update(state, scale, correction1, correction2);
    for (const BiasBalance& balance : balances) steer(balance);
    return std::move(graph_);
  }

 private:
  struct State {
    const Parameter* parameter;
    StateShardings shardings;
    ValueId weight, gradient, m, v;
  };

  State read(const Parameter& parameter, const StateShardings& shardings) {
    b_.set_scope(scope_of(parameter.name));
    const ir::TensorType type{DType::f32, parameter.shape};
    const ValueId weight = b_.input(parameter.name, type, Role::weight, shardings.weight);
    const ValueId gradient = b_.input(gradient_name(parameter.name), type, Role::gradient, shardings.gradient);
    return {.parameter = &parameter,
            .shardings = shardings,
            .weight = weight,
            .gradient = added_up(parameter.name, resharded(gradient, shardings.gradient, shardings.moments)),
            .m = b_.input(first_moment_name(parameter.name), type, Role::optimizer, shardings.moments),
            .v = b_.input(second_moment_name(parameter.name), type, Role::optimizer, shardings.moments)};
  }

  ValueId resharded(ValueId x, const std::string& from, const std::string& to) {
    if (from == to) return x;
    return b_.one("reshard", {x}, {{"from", from}, {"to", to}});
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
    if (links_.stages > 1)
      sum = b_.one("all_reduce", {sum},
                   {{"axes", std::string("stage")},
                    {"parts", links_.stages},
                    {"kind", std::string("sum")},
                    {"cause", std::string("the gradient norm of all stages")}});
    return b_.sqrt(sum);
  }

  const StageLinks::Shared* find_shared(const std::string& parameter) const {
    const auto at = std::find_if(links_.shared.begin(), links_.shared.end(),
                                 [&](const StageLinks::Shared& one) { return one.parameter == parameter; });
    return at == links_.shared.end() ? nullptr : &*at;
  }

  // The gradient of a parameter that two stages hold is the sum of theirs.
  ValueId added_up(const std::string& parameter, ValueId gradient) {
    const StageLinks::Shared* shared = find_shared(parameter);
    if (shared == nullptr) return gradient;
    return b_.one("exchange_sum", {gradient},
                  {{"axes", std::string("stage")},
                   {"peer", shared->peer},
                   {"tag", shared - links_.shared.data()},
                   {"cause", parameter + " is held by two stages"}});
  }

  // min(1, clip / norm)
  ValueId clip_scale(ValueId norm) {
    if (optimizer_.clip == 0) return b_.constant(1.0);
    const ValueId one = b_.constant(1.0);
    const ValueId clip = b_.constant(optimizer_.clip);
    const ValueId positive_norm = b_.offset(norm, 1e-6);
    return b_.min(one, b_.div(clip, positive_norm));
  }

  // 1 / (1 - beta^step)
  ValueId bias_correction(double beta) {
    const ValueId power = b_.exp(b_.scale(step_, std::log(beta)));
    const ValueId numerator = b_.constant(1.0);
    return b_.div(numerator, b_.sub(b_.constant(1.0), power));
  }

  void update(const State& state, ValueId scale, ValueId correction1, ValueId correction2) {
    b_.set_scope(scope_of(state.parameter->name));
    const ValueId g = b_.mul(state.gradient, scale);
    const ValueId kept_m = b_.scale(state.m, optimizer_.beta1);
    const ValueId new_m = b_.scale(g, 1.0 - optimizer_.beta1);
    const ValueId m = b_.add(kept_m, new_m);
    const ValueId kept_v = b_.scale(state.v, optimizer_.beta2);
    const ValueId new_v = b_.scale(b_.square(g), 1.0 - optimizer_.beta2);
    const ValueId v = b_.add(kept_v, new_v);
    const ValueId root = b_.offset(b_.sqrt(b_.mul(v, correction2)), optimizer_.eps);
    ValueId direction = b_.div(b_.mul(m, correction1), root);
    if (state.parameter->decayed && optimizer_.weight_decay > 0)
      direction = b_.add(direction, b_.scale(state.weight, optimizer_.weight_decay));
    const std::string& name = state.parameter->name;
    const ValueId weight = b_.sub(state.weight, b_.mul(direction, lr_));
    replace(name, resharded(weight, state.shardings.moments, state.shardings.weight));
    replace(first_moment_name(name), m);
    replace(second_moment_name(name), v);
    replace(gradient_name(name), b_.constant_like(0.0, state.gradient));
  }

  // b += rate * sign(mean requests - requests), then the counts start again from zero.
  void steer(const BiasBalance& balance) {
    b_.set_scope(scope_of(balance.bias));
    const ir::TensorType type{DType::f32, {balance.experts}};
    const ValueId bias = b_.input(balance.bias, type, Role::weight);
    const ValueId counts = b_.input(balance.counts, type, Role::gradient, balance.sharding);
    const ValueId mean = b_.scale(b_.sum_all(counts), 1.0 / static_cast<double>(balance.experts));
    const ValueId sign = b_.unary("sign", b_.sub(b_.broadcast(mean, type.shape, {}), counts));
    replace(balance.bias, b_.add(bias, b_.scale(sign, balance.rate)));
    replace(balance.counts, b_.constant_like(0.0, counts));
  }

  void replace(const std::string& state, ValueId value) {
    graph_.add_output({.name = state, .value = value, .donated = state});
  }

  const Optimizer& optimizer_;
  const std::vector<StateShardings>& shardings_;
  const StageLinks& links_;
  ir::Graph graph_;
  Builder b_;
  ValueId lr_, step_;
  std::vector<State> states_;
};

}  // namespace

std::string gradient_name(const std::string& parameter) { return "grad." + parameter; }
std::string first_moment_name(const std::string& parameter) { return "adam_m." + parameter; }
std::string second_moment_name(const std::string& parameter) { return "adam_v." + parameter; }

ir::Graph build_update(const std::vector<Parameter>& parameters, const std::vector<BiasBalance>& balances,
                       const Optimizer& optimizer, const std::vector<StateShardings>& shardings,
                       const StageLinks& links) {
  return UpdateBuilder(optimizer, shardings, links).run(parameters, balances);
}

}  // namespace megacpp::optim
