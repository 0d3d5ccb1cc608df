// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/base/suggest.h"
#include "megacpp/optim/optimizer_def.h"
#include "megacpp/recipe/chip_settings.h"
#include "megacpp/recipe/pattern.h"
#include "megacpp/recipe/schema.h"

namespace megacpp::recipe {
namespace {

/// "nam52.yaml:12 model.attention.heads", or the path alone when nobody gave the key.
std::string place(const Origins& origins, std::string_view path) {
  const auto origin = origins.find(path);
  return origin == origins.end() ? std::string(path) : origin->second + " " + std::string(path);
}

/// The divisor of `whole` nearest to `wish`, the smaller one of two.
int64_t nearest_divisor(int64_t whole, int64_t wish) {
  int64_t best = 1;
  const auto consider = [&](int64_t d) {
    const auto distance = std::pair(std::llabs(d - wish), d);
    if (distance < std::pair(std::llabs(best - wish), best)) best = d;
  };
  for (int64_t d = 1; d <= whole / d; ++d) {
    if (whole % d == 0) consider(d), consider(whole / d);
  }
  return best;
}

/// A value out of range that nobody gave is a default standing for "must be given".
std::string got_text(const Origins& origins, std::string_view path, std::string value) {
  return origins.empty() || origins.contains(path) ? value : "nothing: the key is not given";
}

/// Of a few words the nearest one is meant when at least half of it is there.
std::optional<std::string> nearest_choice(const std::string& word, const std::vector<std::string>& choices) {
  std::optional<std::string> best;
  for (const std::string& choice : choices) {
    const size_t distance = base::edit_distance(word, choice);
    const bool is_meant = 2 * distance <= std::max(word.size(), choice.size());
    if (is_meant && (!best || distance < base::edit_distance(word, *best))) best = choice;
  }
  return best;
}

std::string next_step(const Key& key, const Member& member) {
  if (const auto* text = std::get_if<std::string*>(&member)) {
    const std::optional<std::string> choice = nearest_choice(**text, key.range.choices);
    return choice ? "did you mean '" + *choice + "'?" : meaning_of(key);
  }
  std::optional<std::string> value;
  if (const auto* integer = std::get_if<int64_t*>(&member)) value = nearest_value(key, static_cast<double>(**integer));
  if (const auto* number = std::get_if<double*>(&member)) value = nearest_value(key, **number);
  return value ? "set " + key.path + ": " + *value : meaning_of(key);
}

[[noreturn]] void refuse_value(const Key& key, const Member& member, const Origins& origins) {
  const bool is_given = origins.empty() || origins.contains(key.path);
  base::raise(base::Code::E1003, {.where = place(origins, key.path),
                                  .got = got_text(origins, key.path, value_text(member)),
                                  .wanted = describe(key.range),
                                  .next = is_given ? next_step(key, member) : meaning_of(key)});
}

void check_ranges(const Recipe& recipe, const ExpandedPattern& pattern, const Origins& origins) {
  for (const Key& key : keys()) {
    const auto family = family_of(key);
    if (family && !has_family(pattern, *family)) continue;
    validate_key(key, recipe, origins);
  }
}

struct Division {
  std::string_view whole_path;
  int64_t whole;
  std::string_view part_path;
  int64_t part;
};

void check_divides(const Division& d, const Origins& origins) {
  MEGACPP_REQUIRE(d.whole % d.part == 0, E1005,
                  {.where = place(origins, d.part_path),
                   .got = fmt::format("{} = {}, {} = {}", d.whole_path, d.whole, d.part_path, d.part),
                   .wanted = fmt::format("a divisor of {}", d.whole),
                   .next = fmt::format("set {}: {}", d.part_path, nearest_divisor(d.whole, d.part))});
}

void check_attention(const Attention& a, const Train& train, const Origins& origins) {
  check_divides({"model.attention.heads", a.heads, "model.attention.kv_heads", a.kv_heads}, origins);
  MEGACPP_REQUIRE(!a.rope || a.head_dim % 2 == 0, E1005,
                  {.where = place(origins, "model.attention.head_dim"),
                   .got = fmt::format("head_dim {} with rope", a.head_dim),
                   .wanted = "an even head_dim: rope turns pairs of channels",
                   .next = fmt::format("set model.attention.head_dim: {}, or rope: false", a.head_dim + 1)});
  if (a.sparse_block == 0) {
    MEGACPP_REQUIRE(
        a.sparse_local == 0 && a.sparse_global == 0, E1003,
        {.where = place(origins, "model.attention.sparse_block"),
         .got = fmt::format("sparse_local {}, sparse_global {}, but no block size", a.sparse_local, a.sparse_global),
         .wanted = "sparse_block above 0",
         .next = "set model.attention.sparse_block: 64"});
    return;
  }
  MEGACPP_REQUIRE(a.sparse_local >= 1, E1003,
                  {.where = place(origins, "model.attention.sparse_local"),
                   .got = std::to_string(a.sparse_local),
                   .wanted = "at least 1: a token must see its own block",
                   .next = "set model.attention.sparse_local: 1"});
  check_divides({"train.sequence", train.sequence, "model.attention.sparse_block", a.sparse_block}, origins);
}

void check_mamba(const Mamba& m, const Origins& origins) {
  check_divides({"model.mamba.heads", m.heads, "model.mamba.groups", m.groups}, origins);
  MEGACPP_REQUIRE(m.dt_min <= m.dt_max, E1003,
                  {.where = place(origins, "model.mamba.dt_min"),
                   .got = fmt::format("dt_min {}, dt_max {}", m.dt_min, m.dt_max),
                   .wanted = "dt_min at most dt_max",
                   .next = "swap the two values"});
  MEGACPP_REQUIRE(m.dt_limit_low < m.dt_limit_high, E1003,
                  {.where = place(origins, "model.mamba.dt_limit_low"),
                   .got = fmt::format("dt_limit_low {}, dt_limit_high {}", m.dt_limit_low, m.dt_limit_high),
                   .wanted = "dt_limit_low below dt_limit_high",
                   .next = "use 0 and .inf for no clamp"});
}

void check_expert_choice(const FeedForward& e, const Origins& origins) {
  const double largest = static_cast<double>(e.experts) / static_cast<double>(e.top_k);
  MEGACPP_REQUIRE(
      e.capacity_factor > 0 && e.capacity_factor <= largest, E1005,
      {.where = place(origins, "model.feed_forward.capacity_factor"),
       .got = fmt::format("{} with expert_choice, {} experts, top_k {}", e.capacity_factor, e.experts, e.top_k),
       .wanted = fmt::format("above 0 and at most {}: an expert cannot choose more tokens than there are", largest),
       .next = fmt::format("set model.feed_forward.capacity_factor: {}", std::min(1.0, largest))});
  MEGACPP_REQUIRE(e.bias_rate == 0, E1003,
                  {.where = place(origins, "model.feed_forward.bias_rate"),
                   .got = fmt::format("{} with expert_choice", e.bias_rate),
                   .wanted = "0: expert choice is balanced by itself",
                   .next = "set model.feed_forward.bias_rate: 0, or routing: token_choice"});
}

void check_feed_forward(const FeedForward& e, const Origins& origins) {
  if (e.experts == 0) {
    MEGACPP_REQUIRE(e.shared_intermediate == 0, E1003,
                    {.where = place(origins, "model.feed_forward.shared_intermediate"),
                     .got = fmt::format("a shared expert of width {} in a dense block", e.shared_intermediate),
                     .wanted = "0 when experts is 0",
                     .next = "set model.feed_forward.experts, or widen intermediate instead"});
    return;
  }
  MEGACPP_REQUIRE(e.top_k <= e.experts, E1005,
                  {.where = place(origins, "model.feed_forward.top_k"),
                   .got = fmt::format("top_k {} of {} experts", e.top_k, e.experts),
                   .wanted = fmt::format("between 1 and {}", e.experts),
                   .next = fmt::format("set model.feed_forward.top_k: {}", e.experts)});
  if (e.routing == "expert_choice") check_expert_choice(e, origins);
}

void check_families(const Recipe& recipe, const ExpandedPattern& pattern, const Origins& origins) {
  const Model& model = recipe.model;
  if (has_family(pattern, 'A')) check_attention(model.attention, recipe.train, origins);
  if (has_family(pattern, 'M')) check_mamba(model.mamba, origins);
  if (has_family(pattern, 'E')) check_feed_forward(model.feed_forward, origins);
  if (has_family(pattern, 'R')) {
    check_divides({"model.recurrent.width", model.recurrent.width, "model.recurrent.heads", model.recurrent.heads},
                  origins);
  }
}

constexpr int64_t kMaxElements = int64_t{1} << 40;  // of one tensor

/// A width of activations, size x each, and of `copies` weight matrices against the residual stream.
struct Width {
  std::string_view path;
  int64_t size;
  int64_t each = 1;
  int64_t copies = 1;
};

std::vector<Width> widths_of(const Model& model, const ExpandedPattern& pattern) {
  const FeedForward& e = model.feed_forward;
  std::vector<Width> widths = {{"model.hidden", model.hidden}, {"model.vocab", model.vocab}};
  if (has_family(pattern, 'A'))
    widths.push_back({"model.attention.heads", model.attention.heads, model.attention.head_dim});
  if (has_family(pattern, 'M')) widths.push_back({"model.mamba.heads", model.mamba.heads, model.mamba.head_dim});
  if (has_family(pattern, 'E')) {
    widths.push_back({"model.feed_forward.intermediate", e.intermediate, 1, std::max<int64_t>(e.experts, 1)});
    widths.push_back({"model.feed_forward.shared_intermediate", e.shared_intermediate});
  }
  if (has_family(pattern, 'R')) widths.push_back({"model.recurrent.width", model.recurrent.width});
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

void check_tensor_sizes(const Recipe& recipe, const ExpandedPattern& pattern, const Origins& origins) {
  const std::vector<Width> widths = widths_of(recipe.model, pattern);
  for (const Width& width : widths) check_weight_size(width, recipe.model.hidden, origins);
  // The widest alone, so that the batch it allows is allowed by all.
  const auto widest = std::max_element(
      widths.begin(), widths.end(), [](const Width& a, const Width& b) { return a.size * a.each < b.size * b.each; });
  check_activation_size(*widest, recipe.train, origins);
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
      const auto size = nearest_byte_size(std::string_view(item).substr(std::min(item.find('=') + 1, item.size())));
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
  const std::vector<std::string> known(Ladder::kRungs.begin(), Ladder::kRungs.end());
  std::set<std::string> seen;
  for (const std::string& rung : recipe.ladder.rungs) {
    if (std::find(known.begin(), known.end(), rung) == known.end()) {
      const std::optional<std::string> meant = nearest_choice(rung, known);
      refuse_item(kPath, rung, fmt::format("one of {}", fmt::join(known, ", ")),
                  meant ? "did you mean '" + *meant + "'?" : "take one of these", origins);
    }
    if (!seen.insert(rung).second) refuse_item(kPath, rung, "each rung once", "remove one of the two", origins);
  }
}

// A hyper-parameter of another optimizer would change nothing.
void check_optimizer(const Recipe& recipe, const Origins& origins) {
  const auto reads = [](const optim::OptimizerDef& optimizer, std::string_view path) {
    return std::ranges::find(optimizer.keys, path) != optimizer.keys.end();
  };
  const optim::OptimizerDef& chosen = optim::optimizer_def(recipe.optimizer.name);
  const Recipe defaults;
  for (const optim::OptimizerDef& optimizer : optim::all_optimizers())
    for (const std::string_view path : optimizer.keys) {
      const Key& key = *find_key(path);
      const std::string value = value_text(member_of(key, recipe));
      const std::string default_value = value_text(member_of(key, defaults));
      MEGACPP_REQUIRE(reads(chosen, path) || value == default_value, E1003,
                      {.where = place(origins, path),
                       .got = fmt::format("{}, with optimizer.name: {}, which does not read it", value, chosen.name),
                       .wanted = fmt::format("the default, {}", default_value),
                       .next = fmt::format("remove {}, or set optimizer.name: {}", path, optimizer.name)});
    }
}

ExpandedPattern expand_at(const Model& model, const Origins& origins) {
  try {
    return expand(model.pattern, model.depth);
  } catch (const base::Error& error) {
    const std::string path = error.code() == base::Code::E1006 ? "model.pattern" : "model.depth";
    base::Problem problem = error.problem();
    problem.got = got_text(origins, path, problem.got);
    if (origins.contains(path)) problem.where = origins.at(path) + " " + problem.where;
    base::raise(error.code(), problem);
  }
}

}  // namespace

void validate_key(const Key& key, const Recipe& recipe, const Origins& origins) {
  const Member member = member_of(key, recipe);
  if (!contains(key.range, member)) refuse_value(key, member, origins);
}

void validate(const Recipe& recipe, const Origins& origins) {
  // A depth below 1 is refused by the expansion, in its own words; one far too large must not be expanded.
  const Key& depth = *find_key("model.depth");
  const Member member = member_of(depth, recipe);
  if (recipe.model.depth >= 1 && !contains(depth.range, member)) refuse_value(depth, member, origins);
  const ExpandedPattern pattern = expand_at(recipe.model, origins);
  check_ranges(recipe, pattern, origins);
  check_families(recipe, pattern, origins);
  check_tensor_sizes(recipe, pattern, origins);
  check_optimizer(recipe, origins);
  check_limits(recipe, origins);
  check_faults(recipe, origins);
  check_rungs(recipe, origins);
}

}  // namespace megacpp::recipe
