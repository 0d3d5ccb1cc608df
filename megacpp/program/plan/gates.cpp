// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/gates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <string>

#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/plan/dim_names.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/plan/spread.h"
#include "megacpp/program/plan/stage_gates.h"
#include "megacpp/program/plan/tensor_split.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::plan {
namespace {

using base::Code;
using base::Problem;
using recipe::Layout;
using recipe::Model;
using recipe::Recipe;

constexpr const char* kChips = "layout.chips";
constexpr const char* kData = "layout.data_parallel";
constexpr const char* kExpert = "layout.expert_parallel";
constexpr const char* kContext = "layout.context_parallel";
constexpr const char* kTensor = "layout.tensor_parallel";
constexpr const char* kExpertTensor = "layout.expert_tensor_parallel";
constexpr const char* kReshard = "layout.reshard_after_forward";
constexpr const char* kSequence = "train.sequence";
constexpr const char* kBatch = "train.batch";

bool is_any(int64_t) { return true; }

void append(std::vector<Choice>& choices, std::vector<Choice> more) {
  std::move(more.begin(), more.end(), std::back_inserter(choices));
}

// ---- Chips ----

Refusal too_many_chips(const Recipe& recipe) {
  if (product_of_degrees(recipe.layout) <= kMaxChips) return {};
  return Problem{.where = "layout",
                 .got = fmt::format("degrees that multiply to more than {} chips", kMaxChips),
                 .wanted = fmt::format("at most {} chips", kMaxChips)};
}

/// No degree above it is legal: the scarcest thing that chips cannot share.
int64_t largest_tensor_parallel(const Model& model) {
  int64_t scarcest = kMaxChips;
  for (const Splittable& what : splittables(model))
    if (!what.is_shareable()) scarcest = std::min(scarcest, what.split.count);
  return scarcest;
}

/// No expert_parallel degree above it is legal; 1 in a model without experts.
int64_t common_experts(const Model& model) {
  int64_t common = 0;
  for (const int64_t experts : recipe::expert_counts(model)) common = std::gcd(common, experts);
  return std::max<int64_t>(1, common);
}

/// Degrees far above what they split come down to it, all at once; or one of them, by half at least.
std::vector<Choice> lower_degrees(const Recipe& recipe) {
  const std::array<int64_t, 5> most = {recipe.train.batch, common_experts(recipe.model), recipe.train.sequence,
                                       largest_tensor_parallel(recipe.model), recipe.model.depth};
  const auto degrees = degrees_of(recipe.layout);
  Changes all;
  std::vector<Choice> choices(1);
  for (size_t i = 0; i < degrees.size(); ++i) {
    const auto& [key, value] = degrees[i];
    if (value > most[i]) all.push_back({std::string(key), std::to_string(most[i])});
    if (value > 1) choices.push_back(near(key, value, std::min(most[i], value / 2), is_any)[0]);
  }
  if (!all.empty()) choices[0].push_back(std::move(all));
  return choices;
}

Refusal other_chips(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t product = product_of_degrees(l);
  if (l.chips == 0 || l.chips == product) return {};
  return Problem{.where = kChips,
                 .got = fmt::format("chips {}; data {} x expert {} x context {} x tensor {} x pipeline {} = {}",
                                    l.chips, l.data_parallel, l.expert_parallel, l.context_parallel, l.tensor_parallel,
                                    l.pipeline_parallel, product),
                 .wanted = fmt::format("degrees that multiply to {}", l.chips)};
}

/// All chips by sharing the batch further, or as many of them as the batch allows.
std::vector<Choice> share_or_leave_chips(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t product = product_of_degrees(l), others = product / l.data_parallel;
  const int64_t wish = l.chips / others, highest = std::min(wish, recipe.train.batch / l.expert_parallel);
  Choice share = l.chips % others == 0 ? to_value(kData, wish) : Choice{};
  const Choice fewer = near(kData, wish + 1, highest, [&l](int64_t data) { return data > l.data_parallel; })[0];
  share.insert(share.end(), fewer.begin(), fewer.end());
  return {std::move(share), to_value(kChips, product)};
}

// ---- Experts ----

Refusal no_experts(const Recipe& recipe) {
  const int64_t degree = recipe.layout.expert_parallel;
  if (degree == 1 || recipe::has_experts(recipe.model)) return {};
  return Problem{.where = kExpert, .got = fmt::format("{} in a model without experts", degree), .wanted = "1"};
}

/// Outside expert blocks these chips share the batch.
std::vector<Choice> share_batch_instead(const Recipe& recipe) {
  const int64_t data = recipe.layout.data_parallel, wish = data * recipe.layout.expert_parallel;
  Choice share = near(kData, wish + 1, std::min(wish, recipe.train.batch), [data](int64_t d) { return d > data; })[0];
  for (Changes& changes : share) changes.insert(changes.begin(), {kExpert, "1"});
  share.push_back({{kExpert, "1"}});
  return {std::move(share)};
}

Refusal no_experts_to_split(const Recipe& recipe) {
  const int64_t degree = recipe.layout.expert_tensor_parallel;
  if (degree == 0 || recipe::has_experts(recipe.model)) return {};
  return Problem{.where = kExpertTensor, .got = fmt::format("{} in a model without experts", degree), .wanted = "0"};
}

std::vector<Choice> no_expert_tensor(const Recipe&) { return {to_value(kExpertTensor, 0)}; }

Refusal uneven_experts(const Recipe& recipe) {
  const int64_t degree = recipe.layout.expert_parallel;
  for (const int64_t experts : recipe::expert_counts(recipe.model))
    if (experts % degree != 0)
      return Problem{.where = kExpert,
                     .got = fmt::format("expert_parallel {}, experts {}", degree, experts),
                     .wanted = fmt::format("a divisor of {}", experts)};
  return {};
}

std::vector<Choice> nearest_expert_degree(const Recipe& recipe) {
  const int64_t experts = common_experts(recipe.model);
  return near(kExpert, recipe.layout.expert_parallel, experts, [experts](int64_t d) { return experts % d == 0; });
}

Refusal uneven_expert_tensor(const Recipe& recipe) {
  const int64_t tensor = recipe.layout.tensor_parallel, degree = expert_tensor_parallel(recipe.layout);
  if (tensor % degree == 0) return {};
  return Problem{.where = kExpertTensor,
                 .got = fmt::format("expert_tensor_parallel {}, tensor_parallel {}", degree, tensor),
                 .wanted = fmt::format("a divisor of {}", tensor)};
}

std::vector<Choice> nearest_expert_tensor(const Recipe& recipe) {
  const int64_t tensor = recipe.layout.tensor_parallel;
  return near(kExpertTensor, recipe.layout.expert_tensor_parallel, tensor,
              [tensor](int64_t d) { return tensor % d == 0; });
}

// ---- Heads and groups ----

Refusal uneven_heads(const Recipe& recipe) {
  const base::Decision decision = tensor_parallel_fits(recipe.model, recipe.layout);
  if (decision) return {};
  return Problem{.where = kTensor, .got = std::to_string(recipe.layout.tensor_parallel), .wanted = decision.reason()};
}

std::vector<Choice> nearest_tensor_degree(const Recipe& recipe) {
  const auto fits = [&recipe](int64_t wish) {
    Layout layout = recipe.layout;
    layout.tensor_parallel = wish;
    return static_cast<bool>(tensor_parallel_fits(recipe.model, layout));
  };
  std::vector<Choice> choices =
      near(kTensor, recipe.layout.tensor_parallel, largest_tensor_parallel(recipe.model), fits);
  if (recipe.layout.expert_tensor_parallel != 0) append(choices, no_expert_tensor(recipe));
  return choices;
}

/// Things that all-to-all attention swaps for tokens, whole.
std::vector<Splittable> swappables(const Model& model) {
  std::vector<Splittable> list = splittables(model);
  std::erase_if(list, [](const Splittable& what) { return what.split.swapped == blocks::Dim::whole; });
  return list;
}

/// Of them on a chip before they are swapped.
int64_t on_chip(const Splittable& what, const Layout& layout) {
  return what.split.count / parts_of(what.split.count, layout.tensor_parallel);
}

bool can_swap(const Splittable& what, const Layout& layout, int64_t context) {
  const int64_t parts =
      what.is_shareable() ? parts_of(what.split.count, layout.tensor_parallel) : layout.tensor_parallel;
  return what.split.count % (parts * context) == 0;
}

bool can_swap_all(const Recipe& recipe, int64_t context) {
  return std::ranges::all_of(swappables(recipe.model),
                             [&](const Splittable& what) { return can_swap(what, recipe.layout, context); });
}

std::string swapped_text(const Recipe& recipe) {
  std::vector<std::string> words;
  for (const Splittable& what : swappables(recipe.model))
    words.push_back(fmt::format("{} {}{}", on_chip(what, recipe.layout), dim_name(what.split.dim),
                                recipe.model.letters.contains(what.letter) ? fmt::format(" of {}", what.letter) : ""));
  return fmt::format("{}", fmt::join(words, " and "));
}

Refusal uneven_swap(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  if (l.context_attention != recipe::ContextAttention::alltoall || can_swap_all(recipe, l.context_parallel)) return {};
  return Problem{.where = kContext,
                 .got = fmt::format("context_parallel {} with alltoall attention over {} a chip", l.context_parallel,
                                    swapped_text(recipe)),
                 .wanted = "a divisor of both"};
}

std::vector<Choice> nearest_swap_or_ring(const Recipe& recipe) {
  int64_t highest = kMaxChips;
  for (const Splittable& what : swappables(recipe.model)) highest = std::min(highest, what.split.count);
  std::vector<Choice> choices = near(kContext, recipe.layout.context_parallel, highest,
                                     [&recipe](int64_t context) { return can_swap_all(recipe, context); });
  choices.push_back(to_value("layout.context_attention", "ring"));
  return choices;
}

// ---- Sequence and batch ----

/// Tokens that a block of the model looks back over the start of a run: they must be in the run before.
int64_t longest_history(const Model& model) {
  int64_t longest = 0;
  for (const recipe::BlockType& type : recipe::block_types(model)) longest = std::max(longest, type.traits().history);
  return longest;
}

/// What a layout needs of the sequence.
struct SequenceSplit {
  int64_t runs, stream;  // parts in mixers and between them
  int64_t pieces;        // the length is a multiple of it
  int64_t history;       // least tokens of a run
  int64_t least;         // length
  bool fits(int64_t sequence) const { return sequence % pieces == 0 && sequence >= least; }
};

SequenceSplit split_of(const Model& model, const Layout& l) {
  SequenceSplit split{};
  split.runs = l.context_parallel * (is_balanced(model, l) ? 2 : 1);
  split.stream = l.context_parallel * (l.sequence_parallel ? l.tensor_parallel : 1);
  split.pieces = std::lcm(split.stream, split.runs * token_parts(model, l));
  split.history = split.runs > 1 ? longest_history(model) : 0;
  const int64_t shortest = split.runs * split.history;
  split.least = std::max<int64_t>(1, (shortest + split.pieces - 1) / split.pieces) * split.pieces;
  return split;
}

Refusal uneven_sequence(const Recipe& recipe) {
  const SequenceSplit split = split_of(recipe.model, recipe.layout);
  if (split.fits(recipe.train.sequence)) return {};
  return Problem{.where = kSequence,
                 .got = std::to_string(recipe.train.sequence),
                 .wanted = fmt::format(
                     "a multiple of {}: {} runs of tokens{}, {} parts between mixers", split.pieces, split.runs,
                     split.history > 1 ? fmt::format(", at least {} in each", split.history) : "", split.stream)};
}

Choice lower_for_sequence(const Recipe& recipe, const char* key, int64_t Layout::*degree) {
  const int64_t sequence = recipe.train.sequence, now = recipe.layout.*degree;
  return near(key, now, std::min(now, sequence), [&](int64_t wish) {
    if (sequence % wish != 0) return false;
    Layout layout = recipe.layout;
    layout.*degree = wish;
    return split_of(recipe.model, layout).fits(sequence);
  })[0];
}

std::vector<Choice> nearest_sequence_or_degree(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const SequenceSplit split = split_of(recipe.model, l);
  const int64_t below = recipe.train.sequence / split.pieces * split.pieces;
  std::vector<Choice> choices;
  if (below >= split.least) choices.push_back(to_value(kSequence, below));
  choices.push_back(to_value(kSequence, std::max(split.least, below + split.pieces)));
  const bool splits_stream = l.sequence_parallel && l.tensor_parallel > 1;
  if (l.context_parallel > 1) choices.push_back(lower_for_sequence(recipe, kContext, &Layout::context_parallel));
  if (is_balanced(recipe.model, l)) choices.push_back(to_value("layout.load_balance", "false"));
  if (splits_stream) choices.push_back(to_value("layout.sequence_parallel", "false"));
  if (splits_stream) choices.push_back(lower_for_sequence(recipe, kTensor, &Layout::tensor_parallel));
  return choices;
}

Refusal small_batch(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t batch = recipe.train.batch, chips = l.data_parallel * l.expert_parallel;
  if (batch >= chips) return {};
  return Problem{.where = kBatch,
                 .got = fmt::format("{} sequences for data {} x expert {}", batch, l.data_parallel, l.expert_parallel),
                 .wanted = fmt::format("at least {}", chips)};
}

std::vector<Choice> larger_batch_or_smaller_degree(const Recipe& recipe) {
  const Layout& l = recipe.layout;
  const int64_t batch = recipe.train.batch;
  return {to_value(kBatch, l.data_parallel * l.expert_parallel),
          near(kData, l.data_parallel, batch / l.expert_parallel, is_any)[0],
          near(kExpert, l.expert_parallel, batch / l.data_parallel, is_any)[0]};
}

// ---- ZeRO ----

Refusal split_weights_in_megatron(const Recipe& recipe) {
  if (recipe.layout.policy != recipe::Policy::megatron || zero_level(recipe.layout) < 3) return {};
  return Problem{.where = "layout.zero",
                 .got = "zero 3 with policy megatron",
                 .wanted = "at most 2: this policy keeps weights whole in the model"};
}

std::vector<Choice> lower_zero_or_fsdp(const Recipe&) {
  return {to_value("layout.zero", 1), to_value("layout.policy", "fsdp")};
}

bool is_part_of(int64_t group, int64_t data) { return group > 1 && group < data && data % group == 0; }

std::vector<Choice> nearest_groups(const Recipe& recipe) {
  const int64_t data = recipe.layout.data_parallel;
  return near(kReshard, kept_group(recipe.layout), data - 1, [data](int64_t g) { return is_part_of(g, data); });
}

Refusal uneven_reshard(const Recipe& recipe) {
  const int64_t group = kept_group(recipe.layout), data = recipe.layout.data_parallel;
  if (group == 1 || is_part_of(group, data)) return {};  // 1: no number is given
  const std::vector<Choice> groups = nearest_groups(recipe);
  const bool has_parts = !groups[0].empty() || !groups[1].empty();
  return Problem{.where = kReshard,
                 .got = fmt::format("{} with data_parallel {}", group, data),
                 .wanted = has_parts ? fmt::format("true, false, or a divisor of {} between 1 and {}", data, data)
                                     : "true or false: no smaller group of these chips divides them"};
}

std::vector<Choice> nearest_groups_or_all(const Recipe& recipe) {
  std::vector<Choice> choices = nearest_groups(recipe);
  if (choices[0].empty() && choices[1].empty()) choices.push_back(to_value(kReshard, "true"));
  return choices;
}

// Later gates rely on earlier ones: degrees are counted before they are used, experts before the steps of `model`.
std::vector<Gate> make_gates() {
  std::vector<Gate> gates = {
      {Code::E1401, too_many_chips, lower_degrees},
      {Code::E1401, other_chips, share_or_leave_chips},
      {Code::E1403, no_experts, share_batch_instead},
      {Code::E1403, no_experts_to_split, no_expert_tensor},
      {Code::E1403, uneven_experts, nearest_expert_degree},
      {Code::E1403, uneven_expert_tensor, nearest_expert_tensor},
      {Code::E1402, uneven_heads, nearest_tensor_degree},
      {Code::E1402, uneven_swap, nearest_swap_or_ring},
      {Code::E1404, uneven_sequence, nearest_sequence_or_degree},
      {Code::E1405, small_batch, larger_batch_or_smaller_degree},
      {Code::E1407, split_weights_in_megatron, lower_zero_or_fsdp},
      {Code::E1407, uneven_reshard, nearest_groups_or_all},
  };
  const auto& of_stages = stage_gates();
  gates.insert(gates.end(), of_stages.begin(), of_stages.end());
  return gates;
}

const std::vector<Gate>& all_gates() {
  static const std::vector<Gate> gates = make_gates();
  return gates;
}

}  // namespace

int64_t shortest_sequence(const Recipe& recipe, int64_t tokens) {
  const SequenceSplit split = split_of(recipe.model, recipe.layout);
  return std::max(split.least, (tokens + split.pieces - 1) / split.pieces * split.pieces);
}

std::vector<base::Code> gate_codes() {
  std::vector<base::Code> codes;
  for (const Gate& gate : all_gates()) codes.push_back(gate.code);
  std::ranges::sort(codes);
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  return codes;
}

std::optional<Refused> refusal(const Recipe& recipe) {
  const Gate* const gate = refusing(all_gates(), recipe);
  if (gate == nullptr) return std::nullopt;
  return Refused{.code = gate->code, .problem = *gate->refuses(recipe)};
}

void check_layout(const Recipe& recipe, Adjustable adjustable) {
  std::optional<Refused> refused = refusal(recipe);
  if (!refused) return;
  refused->problem.next = next_step(all_gates(), recipe, adjustable);
  base::raise(refused->code, std::move(refused->problem));
}

}  // namespace megacpp::plan
