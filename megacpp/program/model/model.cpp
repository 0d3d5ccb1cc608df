// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/model/model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/activation.h"
#include "megacpp/program/blocks/lora.h"
#include "megacpp/program/model/router_losses.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/pattern.h"

namespace megacpp::model {
namespace {

using blocks::BuildContext;
using blocks::Dim;
using blocks::Init;
using blocks::Parameter;
using blocks::ParameterKind;
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
          .norm_plus_one = model.norm_plus_one,
          .init_std = model.init_std,
          .output_std = output_std,
          .compute = batch.compute};
}

std::string block_name(size_t index) { return fmt::format("block{:02}", index); }

// What all blocks of one letter read.
struct LetterContext {
  recipe::BlockType type;
  blocks::Parallel parallel;
  std::map<std::string, ValueId> shared;
};

class ModelBuilder {
 public:
  ModelBuilder(const recipe::Model& model, const Batch& batch, const plan::Plan& plan)
      : model_(model),
        plan_(plan),
        batch_(batch),
        dims_(dims_of(model, batch)),
        result_{.graph = ir::Graph(model.name), .parameters = {}, .loss = {}, .expert_loads = {}},
        builder_(result_.graph),
        losses_(builder_, static_cast<double>(batch.sequences * batch.length)) {}

  ForwardModel run(bool keep_logits) {
    builder_.set_scope("batch");
    const ValueId ids = tokens("batch.ids");
    const ValueId labels = tokens("batch.labels");
    // Whole along the sequence: attention over a split one reads those of other chips' keys.
    const std::vector<recipe::BlockType> types = recipe::block_types(model_);
    if (std::ranges::any_of(types, [](const recipe::BlockType& type) { return type.traits().reads_documents; }))
      segments_ = tokens("batch.segments", Dim::whole);
    if (std::ranges::any_of(types,
                            [](const recipe::BlockType& type) { return type.traits().reads_document_positions; }))
      document_positions_ = tokens("batch.document_positions");
    if (plan_.parallel.balanced_order)
      positions_ = builder_.input("batch.positions", {DType::i32, {batch_.length}}, ir::Role::batch);
    for (const recipe::BlockType& type : types) add_letter(type);
    for (const recipe::BlockType& type : types) losses_.start(type.letter, type.traits().router);
    ValueId x = embed(ids);
    const std::vector<char> letters = recipe::expand(model_).letters;
    for (size_t i = 0; i < letters.size(); ++i) x = block(i, letters_.at(letters[i]), x);
    const ValueId logits = head(x);
    check_targets();
    losses(logits, labels);
    if (keep_logits) output_logits(logits);
    return std::move(result_);
  }

  ForwardModel run_decoding(const DecodingShape& shape) {
    decoded_length_ = shape.length;
    dims_.step_tokens = shape.step_tokens;
    builder_.set_scope("batch");
    const ValueId ids = tokens("batch.ids");
    positions_ = builder_.input("batch.positions", {DType::i32, {batch_.length}}, ir::Role::batch);
    for (const recipe::BlockType& type : recipe::block_types(model_)) add_letter(type);
    ValueId x = embed(ids);
    const std::vector<char> letters = recipe::expand(model_).letters;
    for (size_t i = 0; i < letters.size(); ++i) x = block(i, letters_.at(letters[i]), x);
    result_.loss = head(x);
    result_.graph.add_output({.name = "logits", .value = result_.loss});
    return std::move(result_);
  }

  ForwardModel run_mixer(char letter) {
    const std::string scope = block_name(0) + "." + letter;
    builder_.set_scope(scope);
    const ValueId x = input("x", {DType::f32, {batch_.sequences, batch_.length, model_.hidden}}, ir::Role::batch,
                            plan_.parallel.sharding({Dim::batch, Dim::stream, Dim::whole}));
    add_letter({.letter = letter,
                .family = &recipe::family_of(model_, letter),
                .config = recipe::config_of(model_, letter),
                .blocks = 1});
    builder_.set_scope(scope);
    const LetterContext& own = letters_.at(letter);
    const std::map<std::string, ValueId> weights = block_weights(own);
    const ValueId y = own.type.family->build(context_for(own, block_name(0), weights), x);
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

  // Of the model itself: frozen where adapters are trained instead.
  ValueId parameter(Parameter parameter) {
    if (model_.lora.is_on()) {
      parameter.trainable = false;
      parameter.frozen = true;
    }
    return add_parameter(std::move(parameter));
  }

  // The weight as products see it: stored, gathered to what stays between forward and backward, gathered to what is
  // computed with. The last step is recomputed in the backward pass, so nothing larger is kept.
  ValueId add_parameter(Parameter parameter) {
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
  std::map<std::string, ValueId> block_weights(const LetterContext& own) {
    std::map<std::string, ValueId> weights;
    for (Parameter& each : own.type.family->parameters(dims_, own.type.config)) {
      const std::string short_name = each.name;
      each.name = builder_.scope() + "." + short_name;
      each.letter = own.type.letter;
      weights[short_name] = parameter(each);
      if (blocks::has_adapters(model_.lora, each)) add_adapters(each, short_name, weights);
    }
    return weights;
  }

  void add_adapters(const Parameter& matrix, const std::string& short_name, std::map<std::string, ValueId>& weights) {
    for (Parameter& adapter : blocks::adapters_of(model_.lora, matrix)) {
      const std::string suffix = adapter.name.substr(matrix.name.size());
      weights[short_name + suffix] = add_parameter(std::move(adapter));
    }
  }

  // A target that names nothing is a typing error; so is one of a parameter that no product of a block reads.
  void check_targets() const {
    const auto target = model_.lora.is_on() ? blocks::unmatched_target(model_.lora, result_.parameters) : std::nullopt;
    MEGACPP_REQUIRE(!target, E1003,
                    {.where = "lora.targets",
                     .got = "'" + *target + "', which names no matrix of a block",
                     .wanted = "a pattern of names of matrices inside blocks; embedding, head, norms, biases, "
                               "convolutions and constants of recurrences have no adapters",
                     .next = "see the names in the table of megacpp explain, with lora.rank=0"});
  }

  BuildContext context_for(const LetterContext& own, const std::string& block,
                           const std::map<std::string, ValueId>& weights) {
    return {.builder = builder_,
            .dims = dims_,
            .config = own.type.config,
            .parallel = own.parallel,
            .block = block,
            .weights = weights,
            .shared = own.shared,
            .segments = segments_,
            .positions = positions_,
            .document_positions = own.type.traits().reads_document_positions ? document_positions_ : std::nullopt,
            .adapter_scale = model_.lora.is_on() ? model_.lora.scale() : 0,
            .routers = &routers_};
  }

  // What its blocks share is built here, ahead of them.
  void add_letter(const recipe::BlockType& type) {
    LetterContext& own = letters_[type.letter];
    own = {.type = type, .parallel = plan_.parallel.of_letter(type.letter), .shared = {}};
    const blocks::SharedValues& shared = type.family->shared;
    if (!shared.build) return;
    builder_.set_scope(std::string(shared.scope) + (type.is_familys_own() ? "" : std::string("_") + type.letter));
    own.shared = shared.build(context_for(own, "", {}));
  }

  ValueId embed(ValueId ids) {
    builder_.set_scope("embed");
    table_ = parameter({"embed.weight",
                        {model_.vocab, model_.hidden},
                        {Dim::vocab, Dim::whole},
                        Init::normal(model_.init_std),
                        ParameterKind::embedding});
    const ValueId x = enter_stream(narrowed_rows(builder_.one("take", {table_, ids})));
    return model_.embed_scale == 1.0 ? x : builder_.scale(x, model_.embed_scale);
  }

  // In the compute dtype before they travel. Of the chips that share the table one has the row, the others zeros.
  ValueId narrowed_rows(ValueId rows) {
    if (batch_.compute == DType::f32) return rows;
    return builder_.one("convert", {rows},
                        {{"dtype", std::string(ir::dtype_name(batch_.compute))}, {"one_part", int64_t{1}}});
  }

  // Outside of blocks the stream is entered as mixers leave it.
  BuildContext outside() {
    static const blocks::Config kNoConfig;
    static const std::map<std::string, ValueId> kNoWeights;
    return {.builder = builder_,
            .dims = dims_,
            .config = kNoConfig,
            .parallel = plan_.parallel,
            .block = "",
            .weights = kNoWeights};
  }
  ValueId enter_stream(ValueId x) { return outside().leave(x); }
  ValueId leave_stream(ValueId x) { return outside().enter(x); }

  ValueId norm(ValueId x, const std::string& name) {
    const ValueId gain = parameter({name, {model_.hidden}, {Dim::whole}, dims_.first_gain(), ParameterKind::norm});
    return blocks::rms_norm(builder_, dims_, x, gain);
  }

  // What the mixer reads of the stream.
  ValueId norm_before(ValueId x, const std::string& scope) {
    return model_.norm_place == recipe::NormPlace::after ? x : norm(x, scope + ".norm.weight");
  }

  // The stream with what the mixer made.
  ValueId add_to_stream(ValueId x, ValueId y, const std::string& scope) {
    if (model_.norm_place != recipe::NormPlace::before) y = norm(y, scope + ".post_norm.weight");
    return builder_.add(x, model_.residual_scale == 1.0 ? y : builder_.scale(y, model_.residual_scale));
  }

  ValueId block(size_t index, const LetterContext& own, ValueId x) {
    const std::string name = block_name(index), scope = name + "." + own.type.letter;
    builder_.set_scope(scope);
    const ValueId normed = norm_before(x, scope);
    const std::map<std::string, ValueId> weights = block_weights(own);
    if (decoded_length_ > 0) return add_to_stream(x, decode_block(own, scope, {name, weights}, normed), scope);
    const size_t routers = routers_.size();
    const ValueId y = own.type.family->build(context_for(own, name, weights), normed);
    if (routers_.size() > routers) add_router(own, scope, routers_.back());
    return add_to_stream(x, y, scope);
  }

  struct NamedWeights {
    const std::string& block;
    const std::map<std::string, ValueId>& weights;
  };

  // The mixer of the tokens of a step, with the block's state as inputs that its outputs replace.
  ValueId decode_block(const LetterContext& own, const std::string& scope, const NamedWeights& named, ValueId normed) {
    blocks::Decoding decoding{.state = {}, .next = {}, .slots = [this](int64_t size) { return slots(size); }};
    blocks::Dims dims = dims_;
    dims.sequence = decoded_length_;
    for (blocks::StatePort& port : own.type.family->state(dims, own.type.config)) {
      if (port.type.elements() == 0) continue;
      decoding.state[port.name] = builder_.input(scope + "." + port.name, port.type, ir::Role::activation);
      result_.state.push_back({scope + "." + port.name, port.type, port.dims});
    }
    BuildContext context = context_for(own, named.block, named.weights);
    context.routers = nullptr;
    context.decoding = &decoding;
    const ValueId y = own.type.family->build(context, normed);
    for (const auto& [port, before] : decoding.state)
      result_.graph.add_output(
          {.name = scope + "." + port, .value = decoding.next.at(port), .donated = scope + "." + port});
    return y;
  }

  ValueId slots(int64_t size) {
    const auto [at, is_new] = slots_.try_emplace(size);
    if (is_new)
      at->second = builder_.input(fmt::format("{}{}", kSlotsPrefix, size), {DType::i32, {size}}, ir::Role::batch);
    return at->second;
  }

  void add_router(const LetterContext& own, const std::string& scope, const blocks::RouterStats& stats) {
    losses_.add(own.type.letter, stats);
    const blocks::Router router = own.type.traits().router;
    result_.expert_loads.push_back({.block = stats.block,
                                    .scope = scope,
                                    .counts = stats.counts,
                                    .dropped = stats.dropped,
                                    .experts = router.experts,
                                    .bias_rate = model_.lora.is_on() ? 0 : router.bias_rate,
                                    .bias = scope + "." + router.bias_name});
  }

  // Logits in f32, whatever the compute dtype: [sequences, length, vocab]
  ValueId head(ValueId x) {
    builder_.set_scope("final_norm");
    const ValueId normed = leave_stream(norm(x, "final_norm.weight"));
    builder_.set_scope("head");
    ValueId logits =
        builder_.convert(model_.tie_embeddings ? tied_product(normed) : untied_product(normed), DType::f32);
    if (model_.logits_divisor != 1.0) logits = builder_.scale(logits, 1.0 / model_.logits_divisor);
    return model_.logits_softcap > 0 ? blocks::soft_capped(builder_, logits, model_.logits_softcap) : logits;
  }

  ValueId tied_product(ValueId x) {
    const ValueId table = builder_.convert(table_, batch_.compute);
    return builder_.dot(x, table, {.lhs_contract = {2}, .rhs_contract = {1}});
  }

  ValueId untied_product(ValueId x) {
    const ValueId weight = parameter({"head.weight",
                                      {model_.hidden, model_.vocab},
                                      {Dim::whole, Dim::vocab},
                                      Init::normal(model_.init_std),
                                      ParameterKind::head});
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
    if (!routers_.empty()) loss = b.add(loss, losses_.total(result_.graph));
    result_.graph.add_output({.name = "loss", .value = loss});
    result_.graph.add_output({.name = "ce", .value = ce});
    result_.loss = loss;
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
  ForwardModel result_;
  Builder builder_;
  ValueId table_;
  std::optional<ValueId> segments_, positions_, document_positions_;
  std::map<char, LetterContext> letters_;
  std::vector<blocks::RouterStats> routers_;
  int64_t decoded_length_ = 0;        // tokens that state is for; 0: whole sequences
  std::map<int64_t, ValueId> slots_;  // by size
  RouterLosses losses_;
};

}  // namespace

ForwardModel build_forward(const recipe::Model& model, const Batch& batch, const plan::Plan& plan, bool keep_logits) {
  return ModelBuilder(model, batch, plan).run(keep_logits);
}

ForwardModel build_decoding(const recipe::Model& model, const DecodingShape& shape) {
  static const plan::Plan kOneChip;
  const Batch tokens{.sequences = shape.sequences, .length = shape.tokens, .compute = shape.compute};
  return ModelBuilder(model, tokens, kOneChip).run_decoding(shape);
}

ForwardModel build_mixer(const recipe::Model& model, char letter, const Batch& batch, const plan::Plan& plan) {
  return ModelBuilder(model, batch, plan).run_mixer(letter);
}

std::vector<blocks::Parameter> parameters_of(const recipe::Model& model) {
  return build_forward(model, {.sequences = 1, .length = 1}).parameters;
}

}  // namespace megacpp::model
