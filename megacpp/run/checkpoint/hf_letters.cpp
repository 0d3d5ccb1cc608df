// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_letters.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_parts.h"

namespace megacpp::checkpoint {

void set_blocks(recipe::Model& model, const std::string& blocks) {
  model.depth = static_cast<int64_t>(blocks.size());
  // How long the longest proper prefix is that ends at each place: the text repeats what that leaves out.
  std::vector<size_t> prefix(blocks.size(), 0);
  for (size_t i = 1; i < blocks.size(); ++i) {
    size_t length = prefix[i - 1];
    while (length > 0 && blocks[i] != blocks[length]) length = prefix[length - 1];
    prefix[i] = length + (blocks[i] == blocks[length] ? 1 : 0);
  }
  model.pattern = blocks.substr(0, blocks.empty() ? 0 : blocks.size() - prefix.back());
}

void add_letter(recipe::Model& model, char letter, char family, const blocks::Config& own) {
  recipe::Letter made{.family = std::string(1, family), .settings = {}};
  const blocks::BlockDef& def = blocks::block_def(family);
  for (const blocks::ConfigKey& key : def.keys) {
    std::string text = schema::value_text(schema::member_of(key, own));
    if (text != schema::value_text(schema::member_of(key, model.families.at(family))))
      made.settings.emplace(fmt::format("{}.{}", def.name, key.path), std::move(text));
  }
  model.letters[letter] = std::move(made);
}

std::vector<std::string> layer_words(const HfFields& fields, std::string_view field, int64_t layers,
                                     std::initializer_list<std::string_view> allowed) {
  std::vector<std::string> words = fields.texts(field);
  if (static_cast<int64_t>(words.size()) != layers)
    fields.refuse(field, fmt::format("{} layers", words.size()), fmt::format("{}, as num_hidden_layers", layers));
  std::string wanted;
  for (const std::string_view word : allowed) wanted += (wanted.empty() ? "" : " or ") + std::string(word);
  for (const std::string& word : words)
    if (std::ranges::find(allowed, word) == allowed.end()) fields.refuse(field, word, wanted);
  return words;
}

TwoAttentions two_attentions(const recipe::Model& model) {
  using blocks::Attention;
  return {.full = first_of<Attention>(model, [](const Attention& a) { return a.window == 0; }),
          .sliding = first_of<Attention>(model, [](const Attention& a) { return a.window > 0; })};
}

int64_t window_when_used(HfCodec& io, const blocks::Attention& full, blocks::Attention& sliding) {
  bool is_used = sliding.window > 0;
  io.flag("use_sliding_window", is_used, false);
  if (io.reads()) sliding = full;
  if (!io.reads() || is_used) window(io, sliding, 4096);
  return io.reads() ? io.fields().size_or("max_window_layers", 28) : 0;
}

namespace {

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

void write_sliding_layers(HfCodec& io, const recipe::Model& model) {
  std::vector<std::string> types;
  for (const char letter : recipe::expand(model).letters) {
    const blocks::Config config = recipe::config_of(model, letter);
    if (const auto* a = config.get_if<blocks::Attention>()) types.emplace_back(a->window > 0 ? kSliding : kFull);
  }
  io.put("num_hidden_layers", model.depth / 2);
  io.put("layer_types", types);
}

}  // namespace

void sliding_layers(HfCodec& io, recipe::Model& model, const TwoAttentions& attentions,
                    const std::function<bool(int64_t layer)>& slides) {
  if (!io.reads()) return write_sliding_layers(io, model);
  const HfFields& fields = io.fields();
  const int64_t layers = fields.size("num_hidden_layers");
  std::vector<bool> sliding;
  if (fields.has("layer_types")) {
    for (const std::string& type : layer_words(fields, "layer_types", layers, {kFull, kSliding}))
      sliding.push_back(type == kSliding);
  } else {
    for (int64_t layer = 0; layer < std::min(layers, kMostLayers); ++layer) sliding.push_back(slides(layer));
  }
  const bool any_slides = std::ranges::find(sliding, true) != sliding.end() && attentions.sliding.window > 0;
  const bool all_slide = any_slides && std::ranges::find(sliding, false) == sliding.end();
  model.config<blocks::Attention>() = all_slide ? attentions.sliding : attentions.full;
  const bool are_two = any_slides && !all_slide;
  if (are_two) add_letter(model, kSlidingLetter, 'A', blocks::Config::of(attentions.sliding));
  std::string blocks;
  for (const bool slides_here : sliding) blocks += {are_two && slides_here ? kSlidingLetter : 'A', 'E'};
  set_blocks(model, blocks);
  model.depth =
      std::max(model.depth, 2 * layers);  // as many as there are, however absurd: sizes are checked as a recipe's
}

}  // namespace megacpp::checkpoint
