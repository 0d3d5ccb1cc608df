// SPDX-License-Identifier: Apache-2.0
#include "megacpp/model/model.h"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/recipe/pattern.h"

namespace megacpp::model {
namespace {

using blocks::BuildContext;
using blocks::Dim;
using blocks::Init;
using blocks::Parameter;
using ir::DType;
using ir::ValueId;
using ops::Builder;

blocks::Dims dims_of(const recipe::Model& model, const Batch& batch) {
  // Projections back to the residual stream start smaller in deep models, so that its variance does not grow with
  // depth.
  const double output_std = model.init_std / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(1, model.depth)));
  return {.batch = batch.sequences,
          .sequence = batch.length,
          .hidden = model.hidden,
          .norm_eps = model.norm_eps,
          .init_std = model.init_std,
          .output_std = output_std,
          .compute = batch.compute};
}

blocks::Configs configs_of(const recipe::Model& model) {
  return {.attention = model.attention,
          .feed_forward = model.feed_forward,
          .mamba = model.mamba,
          .recurrent = model.recurrent};
}

std::string block_name(size_t index) { return fmt::format("block{:02}", index); }

// What the E blocks so far say about their routing, added up.
struct RouterSums {
  ValueId counts, probabilities;  // f32[experts], where balance is over the model
  ValueId balance, z, dropped;    // f32[]
};

class ModelBuilder {
 public:
  ModelBuilder(const recipe::Model& model, const Batch& batch, const plan::Plan& plan)
      : model_(model),
        plan_(plan),
        batch_(batch),
        dims_(dims_of(model, batch)),
        configs_(configs_of(model)),
        result_{.graph = ir::Graph(model.name), .parameters = {}, .loss = {}, .expert_loads = {}},
        builder_(result_.graph) {}

  ForwardModel run(bool keep_logits) {
    builder_.set_scope("batch");
    const ValueId ids = tokens("batch.ids");
    const ValueId labels = tokens("batch.labels");
    const recipe::ExpandedPattern pattern = recipe::expand(model_.pattern, model_.depth);
    if (recipe::has_family(pattern, 'A')) {
      // Whole along the sequence: attention over a split one reads those of other chips' keys.
      if (model_.attention.document_mask) segments_ = tokens("batch.segments", Dim::whole);
      if (plan_.parallel.balanced_order)
        positions_ = builder_.input("batch.positions", {DType::i32, {batch_.length}}, ir::Role::batch);
      if (model_.attention.rope) build_rope_tables();
    }
    if (recipe::has_family(pattern, 'E') && model_.feed_forward.experts > 0) start_router_sums();
    ValueId x = embed(ids);
    for (size_t i = 0; i < pattern.families.size(); ++i) x = block(i, pattern.families[i], x);
    const ValueId logits = head(x);
    losses(logits, labels);
    if (keep_logits) output_logits(logits);
    return std::move(result_);
  }

  ForwardModel run_mixer(char letter) {
    builder_.set_scope(block_name(0) + "." + letter);
    const ValueId x = input("x", {DType::f32, {batch_.sequences, batch_.length, model_.hidden}}, ir::Role::batch,
                            plan_.parallel.sharding({Dim::batch, Dim::stream, Dim::whole}));
    const std::map<std::string, ValueId> weights = block_weights(blocks::block_def(letter));
    const ValueId y = blocks::block_def(letter).build(context_for(block_name(0), weights), x);
    result_.graph.add_output({.name = "y", .value = y});
    result_.loss = y;
    return std::move(result_);
  }

 private:
  ValueId input(const std::string& name, ir::TensorType type, ir::Role role, const ir::Sharding& sharding) {
    const std::string text = sharding.is_replicated() ? "" : ir::to_string(sharding, plan_.parallel.mesh);
    return builder_.input(name, std::move(type), role, text);
  }

  ValueId tokens(const std::string& name, Dim along = Dim::sequence) {
    return input(name, {DType::i32, {batch_.sequences, batch_.length}}, ir::Role::batch,
                 plan_.parallel.sharding({Dim::batch, along}));
  }

  // The weight as products see it: stored, gathered to what stays between forward and backward, gathered to what is
  // computed with. The last step is made again in the backward pass, so nothing larger is kept.
  ValueId parameter(Parameter parameter) {
    const plan::ParameterSpec spec = plan::spec_of(plan_, parameter);
    const ValueId stored = input(parameter.name, {DType::f32, parameter.shape}, ir::Role::weight, spec.stored);
    const ValueId kept = gather(stored, spec.stored, spec.kept, false);
    const ValueId computed = gather(kept, spec.kept, spec.computed, true);
    result_.parameters.push_back(std::move(parameter));
    return computed;
  }

  ValueId gather(ValueId x, const ir::Sharding& from, const ir::Sharding& to, bool recomputed) {
    if (from == to) return x;
    const ir::Mesh& mesh = plan_.parallel.mesh;
    ir::Attrs attrs = {{"from", ir::to_string(from, mesh)}, {"to", ir::to_string(to, mesh)}};
    if (recomputed) attrs.set("recomputed", int64_t{1});
    return builder_.one("reshard", {x}, std::move(attrs));
  }

  // The block's parameters by short name; their full names are prefixed by the scope the builder is in.
  std::map<std::string, ValueId> block_weights(const blocks::BlockDef& def) {
    std::map<std::string, ValueId> weights;
    for (Parameter& each : def.parameters(dims_, configs_)) {
      const std::string short_name = each.name;
      each.name = builder_.scope() + "." + short_name;
      weights[short_name] = parameter(std::move(each));
    }
    return weights;
  }

  BuildContext context_for(const std::string& block, const std::map<std::string, ValueId>& weights) {
    return {.builder = builder_,
            .dims = dims_,
            .configs = configs_,
            .parallel = plan_.parallel,
            .block = block,
            .weights = weights,
            .rope_cos = rope_cos_,
            .rope_sin = rope_sin_,
            .segments = segments_,
            .positions = positions_,
            .routers = &routers_};
  }

  // Rotation angles position * theta^(-i / (d/2)): computed once, shared by every A block. f32[length, head_dim / 2]
  void build_rope_tables() {
    builder_.set_scope("rope");
    const int64_t half = model_.attention.head_dim / 2;
    const ir::Shape shape = {batch_.length, half};
    const ValueId position = positions_ ? own_positions(shape) : builder_.iota(shape, 0, DType::f32);
    const ValueId index = builder_.iota(shape, 1, DType::f32);
    const double log_theta = std::log(model_.attention.rope_theta);
    const ValueId frequency = builder_.exp(builder_.scale(index, -log_theta / static_cast<double>(half)));
    const ValueId angle = builder_.mul(position, frequency);
    rope_cos_ = builder_.unary("cos", angle);
    rope_sin_ = builder_.unary("sin", angle);
  }

  // Of the tokens that the mixers of a chip hold: angles of others would be made in vain. f32 of `shape`
  ValueId own_positions(const ir::Shape& shape) {
    const ValueId own = context_for("", {}).reshard(*positions_, {Dim::whole}, {Dim::sequence});
    return builder_.broadcast(builder_.convert(own, DType::f32), shape, {0});
  }

  ValueId embed(ValueId ids) {
    builder_.set_scope("embed");
    table_ = parameter(
        {"embed.weight", {model_.vocab, model_.hidden}, {Dim::vocab, Dim::whole}, Init::normal(model_.init_std)});
    const ValueId x = enter_stream(narrowed_rows(builder_.one("take", {table_, ids})));
    return model_.embed_scale == 1.0 ? x : builder_.scale(x, model_.embed_scale);
  }

  // In the compute dtype before they travel. Of the chips that share the table one has the row, the others zeros.
  ValueId narrowed_rows(ValueId rows) {
    if (batch_.compute == DType::f32) return rows;
    return builder_.one("convert", {rows},
                        {{"dtype", std::string(ir::dtype_name(batch_.compute))}, {"one_part", int64_t{1}}});
  }

  ValueId enter_stream(ValueId x) { return context_for("", {}).leave(x); }
  ValueId leave_stream(ValueId x) { return context_for("", {}).enter(x); }

  ValueId norm(ValueId x, const std::string& name) {
    const ValueId weight = parameter({name, {model_.hidden}, {Dim::whole}, Init::ones(), false});
    return builder_.node("rms_norm", {x, builder_.convert(weight, batch_.compute)}, {{"eps", model_.norm_eps}})[0];
  }

  ValueId block(size_t index, char letter, ValueId x) {
    const blocks::BlockDef& def = blocks::block_def(letter);
    const std::string name = block_name(index), scope = name + "." + letter;
    builder_.set_scope(scope);
    const ValueId normed = norm(x, scope + ".norm.weight");
    const std::map<std::string, ValueId> weights = block_weights(def);
    const size_t routers = routers_.size();
    const ValueId y = def.build(context_for(name, weights), normed);
    if (routers_.size() > routers) add_router(routers_.back());
    return builder_.add(x, y);
  }

  // Logits in f32, whatever the compute dtype: [sequences, length, vocab]
  ValueId head(ValueId x) {
    builder_.set_scope("final_norm");
    const ValueId normed = leave_stream(norm(x, "final_norm.weight"));
    builder_.set_scope("head");
    return builder_.convert(model_.tie_embeddings ? tied_product(normed) : untied_product(normed), DType::f32);
  }

  ValueId tied_product(ValueId x) {
    const ValueId table = builder_.convert(table_, batch_.compute);
    return builder_.dot(x, table, {.lhs_contract = {2}, .rhs_contract = {1}});
  }

  ValueId untied_product(ValueId x) {
    const ValueId weight = parameter(
        {"head.weight", {model_.hidden, model_.vocab}, {Dim::whole, Dim::vocab}, Init::normal(model_.init_std)});
    return builder_.matmul(x, builder_.convert(weight, batch_.compute));
  }

  void losses(ValueId logits, ValueId labels) {
    builder_.set_scope("loss");
    Builder& b = builder_;
    const std::vector<ValueId> entropy = b.node("cross_entropy", {logits, labels});
    const ValueId counted = b.convert(b.compare(labels, b.constant_like(0.0, labels), "ge"), DType::f32);
    const ValueId counted_tokens = b.sum_all(counted);
    const ValueId at_least_one = b.constant(1.0);
    const ValueId count = b.max(counted_tokens, at_least_one);
    const ValueId ce = b.div(b.sum_all(entropy[0]), count);
    ValueId loss = ce;
    if (model_.z_loss > 0) {
      const ValueId squares = b.sum_all(b.mul(b.square(entropy[1]), counted));
      loss = b.add(loss, b.scale(b.div(squares, count), model_.z_loss));
    }
    if (!routers_.empty()) loss = b.add(loss, router_losses());
    result_.graph.add_output({.name = "loss", .value = loss});
    result_.graph.add_output({.name = "ce", .value = ce});
    result_.loss = loss;
  }

  // Switch-style balance loss: experts * sum_e (requests_e / tokens) (probability_e / tokens), over k; perfect balance
  // is 1 per block. Over the whole model ("balance_over: model") requests and probabilities are added up first, as
  // Mixtral does, and not divided by k.
  ValueId balance(ValueId counts, ValueId probabilities, double tokens, double divisor) {
    const double scale = static_cast<double>(model_.feed_forward.experts) / (tokens * tokens * divisor);
    return builder_.scale(builder_.sum_all(builder_.mul(counts, probabilities)), scale);
  }

  // The sums before the first block are zeros, each its own: so that block reads and adds as the others do, and a loop
  // over equal blocks takes it in.
  void start_router_sums() {
    builder_.set_scope("routers");
    const blocks::FeedForward& f = model_.feed_forward;
    if (f.balance_over == "model") {
      router_sums_.counts = builder_.constant(0.0, {f.experts});
      router_sums_.probabilities = builder_.constant(0.0, {f.experts});
    } else {
      router_sums_.balance = builder_.constant(0.0);
    }
    if (f.z_loss > 0) router_sums_.z = builder_.constant(0.0);
    router_sums_.dropped = builder_.constant(0.0);
  }

  // Adds a block's router statistics to the sums of the blocks before it. They are added where the block is, so that
  // between two blocks only these few numbers pass.
  void add_router(const blocks::RouterStats& stats) {
    ops::Scope scope(builder_, "losses");
    const blocks::FeedForward& f = model_.feed_forward;
    const auto add_to = [this](ValueId& sum, ValueId value) { sum = builder_.add(sum, value); };
    if (f.balance_over == "model") {
      add_to(router_sums_.counts, stats.counts);
      add_to(router_sums_.probabilities, stats.probability_sum);
    } else {
      add_to(router_sums_.balance,
             balance(stats.counts, stats.probability_sum, router_tokens(), static_cast<double>(f.top_k)));
    }
    if (f.z_loss > 0) add_to(router_sums_.z, stats.square_lse_mean);
    add_to(router_sums_.dropped, stats.dropped);
    result_.expert_loads.push_back({stats.block, stats.counts, f.bias_rate > 0});
  }

  double router_tokens() const { return static_cast<double>(batch_.sequences * batch_.length); }

  ValueId router_losses() {
    Builder& b = builder_;
    const blocks::FeedForward& f = model_.feed_forward;
    const double blocks = static_cast<double>(routers_.size());
    const ValueId aux = f.balance_over == "model"
                            ? balance(router_sums_.counts, router_sums_.probabilities, router_tokens() * blocks, 1.0)
                            : b.scale(router_sums_.balance, 1.0 / blocks);
    result_.graph.add_output({.name = "aux", .value = aux});
    // Counted again here, so that a pipeline puts it out with the loss.
    result_.graph.add_output({.name = "dropped", .value = b.max(router_sums_.dropped, b.constant(0.0))});
    ValueId total = b.scale(aux, f.balance_loss);
    if (f.z_loss > 0) total = b.add(total, b.scale(router_sums_.z, f.z_loss / blocks));
    return total;
  }

  void output_logits(ValueId logits) {
    result_.graph.add_output({.name = "logits", .value = logits});
    for (size_t i = 0; i < routers_.size(); ++i)
      result_.graph.add_output({.name = "router_logits." + std::to_string(i), .value = routers_[i].logits});
  }

  const recipe::Model& model_;
  const plan::Plan& plan_;
  Batch batch_;
  blocks::Dims dims_;
  blocks::Configs configs_;
  ForwardModel result_;
  Builder builder_;
  ValueId table_;
  std::optional<ValueId> rope_cos_, rope_sin_, segments_, positions_;
  std::vector<blocks::RouterStats> routers_;
  RouterSums router_sums_;
};

}  // namespace

ForwardModel build_forward(const recipe::Model& model, const Batch& batch, const plan::Plan& plan, bool keep_logits) {
  return ModelBuilder(model, batch, plan).run(keep_logits);
}

ForwardModel build_mixer(const recipe::Model& model, char letter, const Batch& batch, const plan::Plan& plan) {
  return ModelBuilder(model, batch, plan).run_mixer(letter);
}

std::vector<blocks::Parameter> parameters_of(const recipe::Model& model) {
  return build_forward(model, {.sequences = 1, .length = 1}).parameters;
}

}  // namespace megacpp::model
