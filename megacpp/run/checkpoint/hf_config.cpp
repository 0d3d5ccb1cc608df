// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_config.h"

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/program/recipe/validate.h"
#include "megacpp/run/checkpoint/hf_classes.h"

namespace megacpp::checkpoint {
namespace {

/// The sizes must pass the same gates as a recipe's, and must do so before names are made for every layer.
void check_sizes(const recipe::Model& model) {
  constexpr int64_t kAnyVocab = 2;  // a lone block has none
  recipe::Recipe recipe;
  recipe.name = model.name;
  recipe.model = model;
  if (model.vocab == 0) recipe.model.vocab = kAnyVocab;
  recipe.train.batch = recipe.train.sequence = recipe.train.steps = 1;
  recipe::validate(recipe);
}

HfModel import_class(const HfClass& cls, const base::Json& config, HfNaming naming) {
  const HfFields fields(config, std::string(cls.name));
  HfCodec reader = HfCodec::reader(fields);
  recipe::Model model;
  model.name = cls.name;
  cls.fields(reader, model);
  check_sizes(model);
  return {.cls = std::string(cls.name),
          .model = model,
          .names = cls.names(model, naming),
          .naming = naming,
          .lone_block = cls.is_lone_block};
}

const HfClass& class_named(const std::string& cls) {
  std::vector<std::string> known;
  for (const HfClass& each : hf_classes()) {
    known.emplace_back(each.name);
    if (cls == each.name) return each;
  }
  base::raise(base::Code::E1202, {.where = "model class",
                                  .got = cls.empty() ? "an empty name" : cls,
                                  .wanted = hf_class_names(),
                                  .next = base::did_you_mean(cls, known, "use a model of one of these classes")});
}

}  // namespace

HfModel import_hf_config(const std::string& cls, const base::Json& config, HfNaming naming) {
  return import_class(class_named(cls), config, naming);
}

std::string hf_class_of(const base::Json& config) {
  const HfFields fields(config, "config.json");
  const std::string type = fields.text_or("model_type", "");
  if (!fields.has("architectures") && !type.empty()) {
    for (const HfClass& cls : hf_classes())
      if (cls.model_type == type) return std::string(cls.name);
    fields.refuse("model_type", type, "the type of one of " + hf_class_names());
  }
  const std::vector<std::string> classes = fields.texts("architectures");
  if (classes.size() != 1) fields.refuse("architectures", std::to_string(classes.size()) + " classes", "one class");
  const HfClass& cls = class_named(classes.front());
  if (!type.empty() && !cls.model_type.empty() && type != cls.model_type)
    fields.refuse("model_type", type, std::string(cls.model_type) + ", as " + std::string(cls.name) + " has");
  return std::string(cls.name);
}

}  // namespace megacpp::checkpoint
