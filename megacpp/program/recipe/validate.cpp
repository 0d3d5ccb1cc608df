// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/optim/parameter_groups.h"
#include "megacpp/program/optim/schedule.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/letters.h"

namespace megacpp::recipe {
namespace {

/// The family's key behind a setting of a letter.
std::string inherited_path(std::string_view path) {
  const LetterPath letter = letter_path(path);
  return letter.to == LetterPath::To::setting ? "model." + letter.setting : std::string(path);
}

bool is_given(const Origins& origins, std::string_view path) {
  return origins.empty() || origins.contains(path) || origins.contains(inherited_path(path));
}

/// A value out of range that nobody gave is a default standing for "must be given".
std::string got_text(const Origins& origins, std::string_view path, std::string value) {
  return is_given(origins, path) ? value : "nothing: the key is not given";
}

[[noreturn]] void refuse_value(const schema::KeySpec& key, const Member& member, const Origins& origins) {
  base::raise(base::Code::E1003,
              {.where = place(origins, key.path),
               .got = got_text(origins, key.path, value_text(member)),
               .wanted = describe(key.range),
               .next = is_given(origins, key.path) ? schema::next_step(key, member) : schema::meaning_of(key)});
}

void check_ranges(const Recipe& recipe, const std::vector<BlockType>& types, const Origins& origins) {
  const auto is_used = [&types](char family) {
    return std::ranges::any_of(types, [family](const BlockType& type) { return type.letter == family; });
  };
  for (const Key& key : keys()) {
    const auto family = family_of(key);
    if (!family || is_used(*family)) validate_key(key, recipe, origins);
  }
}

/// A letter of the recipe's own: each of its settings, and those it takes from its family.
void check_own_letter(const BlockType& type, const Origins& origins) {
  for (schema::Key<blocks::Config> key : type.family->keys) {
    const Member member = member_of(key, type.config);
    key.path = type.path(key.path);
    if (!contains(key.range, member)) refuse_value(key, member, origins);
  }
}

void check_blocks(const Recipe& recipe, const std::vector<BlockType>& types, const Origins& origins) {
  for (const BlockType& type : types) {
    if (!type.is_familys_own()) check_own_letter(type, origins);
    type.family->check({.config = type.config,
                        .sequence = recipe.train.sequence,
                        .path = [&type](std::string_view key) { return type.path(key); },
                        .place = [&origins](const std::string& path) { return place(origins, path); }});
  }
}

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of one tensor
// Of the largest tensor of every block together: with the hundred tensors a block may keep, sums of bytes stay in
// range.
constexpr int64_t kMaxModelElements = int64_t{1} << 50;

/// blocks::Width with the path of its size.
struct Width {
  std::string path;
  int64_t size;
  int64_t each = 1;
  int64_t copies = 1;
};

std::vector<Width> widths_of(const Model& model, const std::vector<BlockType>& types) {
  std::vector<Width> widths = {{"model.hidden", model.hidden}, {"model.vocab", model.vocab}};
  for (const BlockType& type : types)
    for (const blocks::Width& width : type.traits().widths)
      widths.push_back({type.path(width.key), width.size, width.each, width.copies});
  return widths;
}

void check_weight_size(const Width& w, int64_t hidden, const Origins& origins) {
  const int64_t largest = kMaxElements / (hidden * w.each * w.copies);
  MEGACPP_REQUIRE(w.size <= largest, E1005,
                  {.where = place(origins, w.path),
                   .got = fmt::format("{} = {}: a weight of {} x {} x {} elements", w.path, w.size, w.copies, hidden,
                                      w.size * w.each),
                   .wanted = fmt::format("at most {} elements in a tensor", kMaxElements),
                   .next = fmt::format("set {}: {}", w.path, largest)});
}

void check_activation_size(const Width& w, const Train& train, const Origins& origins) {
  const int64_t tokens = kMaxElements / (w.size * w.each);
  const int64_t batch = tokens / train.sequence;
  MEGACPP_REQUIRE(
      train.batch <= batch, E1005,
      {.where = place(origins, batch >= 1 ? "train.batch" : "train.sequence"),
       .got = fmt::format("batch {} x sequence {} x {} of {}", train.batch, train.sequence, w.size * w.each, w.path),
       .wanted = fmt::format("at most {} elements in a tensor", kMaxElements),
       .next = batch >= 1 ? fmt::format("set train.batch: {}", batch)
                          : fmt::format("set train.batch: 1 and train.sequence: {}", tokens)});
}

void check_model_size(int64_t largest_tensor, int64_t depth, const Origins& origins) {
  MEGACPP_REQUIRE(depth <= kMaxModelElements / largest_tensor, E1005,
                  {.where = place(origins, "model.depth"),
                   .got = fmt::format("{} blocks with tensors of up to {} elements", depth, largest_tensor),
                   .wanted = fmt::format("at most {} elements in one tensor of every block", kMaxModelElements),
                   .next = fmt::format("set model.depth: {}", kMaxModelElements / largest_tensor)});
}

void check_tensor_sizes(const Recipe& recipe, const std::vector<BlockType>& types, const Origins& origins) {
  const std::vector<Width> widths = widths_of(recipe.model, types);
  for (const Width& width : widths) check_weight_size(width, recipe.model.hidden, origins);
  // The widest alone, so that the batch it allows is allowed by all.
  const auto widest = std::max_element(
      widths.begin(), widths.end(), [](const Width& a, const Width& b) { return a.size * a.each < b.size * b.each; });
  check_activation_size(*widest, recipe.train, origins);
  int64_t largest = recipe.train.batch * recipe.train.sequence * widest->size * widest->each;
  for (const Width& width : widths)
    largest = std::max(largest, recipe.model.hidden * width.size * width.each * width.copies);
  check_model_size(largest, recipe.model.depth, origins);
}

[[noreturn]] void refuse_item(std::string_view path, const std::string& item, const std::string& wanted,
                              const std::string& next, const Origins& origins) {
  base::raise(base::Code::E1003,
              {.where = place(origins, path), .got = "'" + item + "'", .wanted = wanted, .next = next});
}

void check_chip(std::string_view path, const std::string& item, int64_t chip, const Recipe& recipe,
                const Origins& origins) {
  const int64_t chips = chips_of(recipe.layout);
  if (chip < chips) return;
  refuse_item(path, item, fmt::format("a chip from 0 to {}: the layout has {}", chips - 1, chips),
              fmt::format("name chip {}, or raise a degree of the layout", chips - 1), origins);
}

void check_limits(const Recipe& recipe, const Origins& origins) {
  constexpr std::string_view kPath = "hardware.limits";
  std::set<int64_t> seen;
  for (const std::string& item : recipe.hardware.limits) {
    const auto limit = parse_chip_limit(item);
    if (!limit) {
      const auto size =
          schema::nearest_byte_size(std::string_view(item).substr(std::min(item.find('=') + 1, item.size())));
      refuse_item(kPath, item, "CHIP=BYTES with more than 0 bytes, e.g. 3=256MiB",
                  size ? "write the size as " + *size : "write the chip's number, '=' and a size", origins);
    }
    if (!seen.insert(limit->chip).second)
      refuse_item(kPath, item, fmt::format("one limit for chip {}", limit->chip), "remove one of the two", origins);
  }
}

void check_faults(const Recipe& recipe, const Origins& origins) {
  constexpr std::string_view kPath = "hardware.fail_allocation";
  std::vector<FailAllocation> seen;
  for (const std::string& item : recipe.hardware.fail_allocation) {
    const auto fault = parse_fail_allocation(item);
    if (!fault)
      refuse_item(kPath, item, "chip CHIP step N, with N a number, load or compile",
                  "e.g. --set 'hardware.fail_allocation=[chip 0 step 2]'", origins);
    check_chip(kPath, item, fault->chip, recipe, origins);
    if (fault->step >= recipe.train.steps)
      refuse_item(kPath, item, fmt::format("a step from 0 to {}", recipe.train.steps - 1),
                  "name an earlier step, or raise train.steps", origins);
    if (std::find(seen.begin(), seen.end(), *fault) != seen.end())
      refuse_item(kPath, item, "each fault once", "remove one of the two", origins);
    seen.push_back(*fault);
  }
}

void check_rungs(const Recipe& recipe, const Origins& origins) {
  constexpr std::string_view kPath = "ladder.rungs";
  const std::vector<std::string>& known = rung_names();
  std::set<std::string> seen;
  for (const std::string& rung : recipe.ladder.rungs) {
    if (std::find(known.begin(), known.end(), rung) == known.end()) {
      const std::optional<std::string> meant = schema::nearest_choice(rung, known);
      refuse_item(kPath, rung, fmt::format("one of {}", fmt::join(known, ", ")),
                  meant ? "did you mean '" + *meant + "'?" : "take one of these", origins);
    }
    if (!seen.insert(rung).second) refuse_item(kPath, rung, "each rung once", "remove one of the two", origins);
  }
}

void check_offload_blocks(const Recipe& recipe, const Origins& origins) {
  constexpr std::string_view kPath = "layout.offload_blocks";
  std::set<std::string> seen;
  for (const std::string& letter : recipe.layout.offload_blocks) {
    if (letter.size() != 1 || recipe.model.pattern.find(letter) == std::string::npos)
      refuse_item(kPath, letter, fmt::format("letters of the pattern \"{}\"", recipe.model.pattern),
                  "name blocks that the model has, or remove it", origins);
    if (!seen.insert(letter).second) refuse_item(kPath, letter, "each letter once", "remove one of the two", origins);
  }
}

/// Refuses keys that records other than the chosen one read: they would change nothing. `choice` is the key that
/// chooses.
template <typename Record>
void check_read(std::span<const Record> records, const Record& chosen, std::string_view choice,
                const std::pair<const Recipe&, const Origins&>& given) {
  const auto& [recipe, origins] = given;
  const Recipe defaults;
  for (const Record& record : records)
    for (const std::string_view path : record.keys) {
      const Key& key = *find_key(path);
      const std::string value = value_text(member_of(key, recipe));
      const std::string default_value = value_text(member_of(key, defaults));
      const bool is_read = std::ranges::find(chosen.keys, path) != chosen.keys.end();
      MEGACPP_REQUIRE(is_read || value == default_value, E1003,
                      {.where = place(origins, path),
                       .got = fmt::format("{}, with {}: {}, which does not read it", value, choice, chosen.name),
                       .wanted = fmt::format("the default, {}", default_value),
                       .next = fmt::format("remove {}, or set {}: {}", path, choice, record.name)});
    }
}

void check_decay_groups(const Optimizer& optimizer, const Origins& origins) {
  constexpr std::string_view kPath = "optimizer.no_decay";
  const std::vector<std::string> kinds(blocks::kParameterKinds.begin(), blocks::kParameterKinds.end());
  std::set<std::string> seen;
  for (const std::string& item : optimizer.no_decay) {
    if (!optim::is_name_pattern(item) && std::ranges::find(kinds, item) == kinds.end()) {
      const std::optional<std::string> meant = schema::nearest_choice(item, kinds);
      refuse_item(kPath, item, fmt::format("one of {}, or a pattern of names with '.' or '*'", fmt::join(kinds, ", ")),
                  meant ? "did you mean '" + *meant + "'?" : "take one of these", origins);
    }
    if (!seen.insert(item).second) refuse_item(kPath, item, "each item once", "remove one of the two", origins);
  }
}

void check_decay(const Recipe& recipe, const Origins& origins) {
  const Optimizer& optimizer = recipe.optimizer;
  const auto decay_steps = optim::schedule_def(optimizer.schedule).decay_steps;
  if (decay_steps == nullptr) return;
  const int64_t steps = recipe.train.steps, decaying = decay_steps(optimizer, steps);
  MEGACPP_REQUIRE(
      optimizer.warmup_steps + decaying <= steps, E1003,
      {.where = place(origins, "optimizer.warmup_steps"),
       .got = fmt::format("{} steps of warm-up and {} of decay in {}", optimizer.warmup_steps, decaying, steps),
       .wanted = "no more than train.steps together",
       .next = fmt::format("set optimizer.warmup_steps: {}, or lower optimizer.wsd.decay", steps - decaying)});
}

void check_optimizer(const Recipe& recipe, const Origins& origins) {
  const Optimizer& optimizer = recipe.optimizer;
  const std::pair<const Recipe&, const Origins&> given(recipe, origins);
  check_read(optim::all_optimizers(), optim::optimizer_def(optimizer.name), "optimizer.name", given);
  check_read(optim::all_schedules(), optim::schedule_def(optimizer.schedule), "optimizer.schedule", given);
  check_decay_groups(optimizer, origins);
  check_decay(recipe, origins);
}

void check_lora(const Recipe& recipe, const Origins& origins) {
  constexpr std::string_view kPath = "lora.targets";
  const blocks::Lora& lora = recipe.model.lora;
  if (!lora.is_on()) return;
  MEGACPP_REQUIRE(lora.rank <= recipe.model.hidden, E1005,
                  {.where = place(origins, "lora.rank"),
                   .got = fmt::format("rank {} in a model of width {}", lora.rank, recipe.model.hidden),
                   .wanted = "at most model.hidden",
                   .next = fmt::format("set lora.rank: {}", std::min<int64_t>(16, recipe.model.hidden))});
  MEGACPP_REQUIRE(!lora.targets.empty(), E1003,
                  {.where = place(origins, kPath),
                   .got = fmt::format("no target, with lora.rank {}: nothing would be trained", lora.rank),
                   .wanted = "patterns of names",
                   .next = "set lora.targets: [block*], or lora.rank: 0"});
  std::set<std::string> seen;
  for (const std::string& target : lora.targets)
    if (!seen.insert(target).second) refuse_item(kPath, target, "each pattern once", "remove one of the two", origins);
}

std::vector<BlockType> block_types_at(const Model& model, const Origins& origins) {
  try {
    return block_types(model);
  } catch (const base::Error& error) {
    const std::string path = error.code() == base::Code::E1006 ? "model.pattern" : "model.depth";
    base::Problem problem = error.problem();
    problem.got = got_text(origins, path, problem.got);
    if (origins.contains(path)) problem.where = origins.at(path) + " " + problem.where;
    base::raise(error.code(), problem);
  }
}

}  // namespace

std::string place(const Origins& origins, std::string_view path) {
  if (const auto origin = origins.find(path); origin != origins.end()) return origin->second + " " + std::string(path);
  const std::string family = inherited_path(path);
  const auto origin = origins.find(family);
  return origin == origins.end()
             ? std::string(path)
             : fmt::format("{} {} (of letter {})", origin->second, family, letter_path(path).letter);
}

void validate_key(const Key& key, const Recipe& recipe, const Origins& origins) {
  const Member member = member_of(key, recipe);
  if (!contains(key.range, member)) refuse_value(key, member, origins);
}

void validate(const Recipe& recipe, const Origins& origins) {
  // A depth below 1 is refused by the expansion, in its own words; one far too large must not be expanded.
  const Key& depth = *find_key("model.depth");
  const Member member = member_of(depth, recipe);
  if (recipe.model.depth >= 1 && !contains(depth.range, member)) refuse_value(depth, member, origins);
  check_letters(recipe, origins);
  const std::vector<BlockType> types = block_types_at(recipe.model, origins);
  check_ranges(recipe, types, origins);
  check_blocks(recipe, types, origins);
  check_tensor_sizes(recipe, types, origins);
  check_optimizer(recipe, origins);
  check_lora(recipe, origins);
  check_limits(recipe, origins);
  check_faults(recipe, origins);
  check_rungs(recipe, origins);
  check_offload_blocks(recipe, origins);
}

}  // namespace megacpp::recipe
