// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_export_config.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/given_model.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_classes.h"

namespace megacpp::checkpoint {
namespace {

/// With defaults for what other settings make meaningless.
blocks::Config without_unread(blocks::Config config) {
  if (auto* a = config.get_if<blocks::Attention>(); a != nullptr && !a->rope)
    a->rope_theta = blocks::Attention{}.rope_theta;
  if (auto* e = config.get_if<blocks::FeedForward>(); e != nullptr && e->experts == 0)
    *e = {.activation = e->activation, .intermediate = e->intermediate};
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

std::optional<std::string> difference(const recipe::Model& ours, const recipe::Model& theirs) {
  if (recipe::expand(ours).letters != recipe::expand(theirs).letters)
    return fmt::format("blocks {}, not {} up to {}", ours.pattern, theirs.pattern, theirs.depth);
  if (ours.embed_scale != theirs.embed_scale)
    return fmt::format("model.embed_scale {}, not {}", ours.embed_scale, theirs.embed_scale);
  for (const recipe::BlockType& type : recipe::block_types(ours))
    if (auto found = difference(*type.family, type.config, theirs.families.at(type.letter))) return found;
  return std::nullopt;
}

/// The same model without letters of its own: all blocks of a family must have the same settings.
recipe::Model one_letter_per_family(const recipe::Model& model) {
  recipe::Model flat = model;
  flat.letters.clear();
  flat.pattern.clear();
  std::set<char> seen;
  for (const recipe::BlockType& type : recipe::block_types(model)) {
    const char letter = type.family->letter;
    if (seen.insert(letter).second) {
      flat.families[letter] = type.config;
      continue;
    }
    const auto found = difference(*type.family, type.config, flat.families.at(letter));
    MEGACPP_REQUIRE(!found, E1202,
                    {.where = fmt::format("export of letter {}", type.letter),
                     .got = *found,
                     .wanted = fmt::format("blocks of family {} that are all alike", letter),
                     .next = "keep the model as a checkpoint: no Hugging Face class has blocks that differ so"});
  }
  for (const char letter : recipe::expand(model).letters) flat.pattern += recipe::family_of(model, letter).letter;
  flat.depth = static_cast<int64_t>(flat.pattern.size());
  return flat;
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
  const recipe::Model flat = one_letter_per_family(model);
  std::string reasons;
  for (const HfClass& cls : hf_classes()) {
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
                   .wanted = "LlamaForCausalLM, MixtralForCausalLM, Mamba2ForCausalLM or NemotronHForCausalLM",
                   .next = "leave the class out: the one that fits is taken"});
  base::raise(base::Code::E1202,
              {.where = "export of " + model.name,
               .got = "a model that differs from each class: " + reasons,
               .wanted = "a model that one class computes alike",
               .next = "change what differs where the weights allow it, or keep the model as a checkpoint"});
}

}  // namespace megacpp::checkpoint
