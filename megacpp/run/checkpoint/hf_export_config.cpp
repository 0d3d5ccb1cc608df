// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_export_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/rope.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/given_model.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/run/checkpoint/hf_classes.h"

namespace megacpp::checkpoint {
namespace {

/// With defaults for what other settings make meaningless, and in full what 0 stands for.
blocks::Attention without_unread(blocks::Attention a) {
  const blocks::Attention defaults;
  if (a.scale == 0) a.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
  if (!a.rope) a.rope_theta = defaults.rope_theta;
  if (a.rope) a.rotary_dim = a.turned();
  if (a.rope_scaling == blocks::RopeScaling::llama3 || a.rope_scaling == blocks::RopeScaling::yarn)
    if (a.rope_fast_turns == 0) a.rope_fast_turns = blocks::default_fast_turns(a.rope_scaling);
  if (a.rope_scaling == blocks::RopeScaling::yarn && a.rope_amplitude == 0)
    a.rope_amplitude = blocks::default_amplitude(a.rope_factor);
  return a;
}

blocks::FeedForward without_unread(blocks::FeedForward e) {
  if (!e.is_routed())
    return {.activation = e.activation,
            .clamp_limit = e.clamp_limit,
            .clamp_slope = e.clamp_slope,
            .bias = e.bias,
            .intermediate = e.intermediate};
  e.selection_bias = e.has_selection_bias();
  e.bias_rate = 0;
  if (e.top_groups == e.expert_groups) e.top_groups = e.expert_groups = 1;
  return e;
}

blocks::Config without_unread(blocks::Config config) {
  if (auto* a = config.get_if<blocks::Attention>()) *a = without_unread(*a);
  if (auto* e = config.get_if<blocks::FeedForward>()) *e = without_unread(*e);
  return config;
}

/// "model.attention.window 8, not 0"
std::optional<std::string> difference(const blocks::BlockDef& family, const blocks::Config& ours,
                                      const blocks::Config& theirs) {
  const blocks::Config left = without_unread(ours), right = without_unread(theirs);
  for (const blocks::ConfigKey& key : family.keys) {
    if (!recipe::logits_depend_on(fmt::format("model.{}.{}", family.name, key.path))) continue;
    const std::string a = schema::value_text(schema::member_of(key, left));
    const std::string b = schema::value_text(schema::member_of(key, right));
    if (a != b) return fmt::format("model.{}.{} {}, not {}", family.name, key.path, a, b);
  }
  return std::nullopt;
}

/// The settings of the model itself that the logits depend on.
std::optional<std::string> own_difference(const recipe::Model& ours, const recipe::Model& theirs) {
  recipe::Recipe left, right;
  left.model = ours;
  right.model = theirs;
  for (const char* path :
       {"model.norm_place", "model.norm_plus_one", "model.tie_embeddings", "model.norm_eps", "model.embed_scale",
        "model.residual_scale", "model.logits_divisor", "model.logits_softcap"}) {
    const recipe::Key& key = *recipe::find_key(path);
    const std::string a = schema::value_text(schema::member_of(key, left));
    const std::string b = schema::value_text(schema::member_of(key, right));
    if (a != b) return fmt::format("{} {}, not {}", path, a, b);
  }
  return std::nullopt;
}

/// Letters may be others: each pair that stands in one place must be of one family and alike.
std::optional<std::string> difference(const recipe::Model& ours, const recipe::Model& theirs) {
  const std::vector<char> left = recipe::expand(ours).letters, right = recipe::expand(theirs).letters;
  std::set<std::pair<char, char>> pairs;
  bool same_families = left.size() == right.size();
  for (size_t i = 0; same_families && i < left.size(); ++i)
    if (pairs.emplace(left[i], right[i]).second)
      same_families = recipe::family_of(ours, left[i]).letter == recipe::family_of(theirs, right[i]).letter;
  if (!same_families)
    return fmt::format("blocks {}, not {} up to {}", std::string(left.begin(), left.end()), theirs.pattern,
                       theirs.depth);
  if (auto found = own_difference(ours, theirs)) return found;
  for (const auto& [a, b] : pairs)
    if (auto found = difference(recipe::family_of(ours, a), recipe::config_of(ours, a), recipe::config_of(theirs, b)))
      return found;
  return std::nullopt;
}

/// The same model with letters of its own that give all their settings, and a family's settings those of its first
/// letter in the pattern: so that a class can read either without the other.
recipe::Model spelled_out(const recipe::Model& model) {
  recipe::Model spelled = model;
  std::set<char> seen;
  for (const recipe::BlockType& type : recipe::block_types(model)) {
    if (!type.is_familys_own())
      for (const blocks::ConfigKey& key : type.family->keys)
        spelled.letters[type.letter].settings[fmt::format("{}.{}", type.family->name, key.path)] =
            schema::value_text(schema::member_of(key, type.config));
    if (seen.insert(type.family->letter).second) spelled.families[type.family->letter] = type.config;
  }
  return spelled;
}

base::Json write_config(const HfClass& cls, const recipe::Model& flat, const HfConfigOptions& options) {
  base::Json config = options.carried.empty() ? base::Json{{"torch_dtype", options.type->numpy}}
                                              : base::parse_json(options.carried, base::Code::E1202, "config.json");
  config["architectures"] = {cls.name};
  config["model_type"] = cls.model_type;
  HfCodec writer = HfCodec::writer(config);
  recipe::Model written = flat;
  cls.fields(writer, written);
  return config;
}

/// Why the class is another model; nothing where it is the same.
std::optional<std::string> mismatch(const HfClass& cls, const base::Json& config, const recipe::Model& flat) {
  try {
    return difference(flat, import_hf_config(std::string(cls.name), config).model);
  } catch (const base::Error& error) {
    return error.problem().where + ": " + error.problem().got;
  }
}

}  // namespace

ExportedConfig export_hf_config(const recipe::Model& model, const HfConfigOptions& options) {
  const recipe::Model flat = spelled_out(model);
  std::string reasons;
  std::vector<HfClass> classes(hf_classes().begin(), hf_classes().end());
  std::ranges::stable_partition(classes, [&](const HfClass& cls) { return cls.name == options.preferred; });
  for (const HfClass& cls : classes) {
    if (cls.model_type.empty() || (!options.cls.empty() && options.cls != cls.name)) continue;
    const base::Json config = write_config(cls, flat, options);
    const auto reason = mismatch(cls, config, flat);
    if (!reason) {
      return {.config = base::to_text(config, 2) + "\n",
              .described = {.cls = std::string(cls.name),
                            .model = model,
                            .names = cls.names(model, options.naming),
                            .naming = options.naming}};
    }
    reasons += fmt::format("{}{} ({})", reasons.empty() ? "" : "; ", cls.name, *reason);
  }
  MEGACPP_REQUIRE(!reasons.empty(), E1202,
                  {.where = "export",
                   .got = "class " + options.cls,
                   .wanted = "one of " + hf_class_names(),
                   .next = "leave the class out: the one that fits is taken"});
  base::raise(base::Code::E1202,
              {.where = "export of " + model.name,
               .got = "a model that differs from each class: " + reasons,
               .wanted = "a model that one class computes alike",
               .next = "change what differs where the weights allow it, or keep the model as a checkpoint"});
}

}  // namespace megacpp::checkpoint
