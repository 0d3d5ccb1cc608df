// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/spread.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/plan/tensor_split.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;
using ir::Axes;

/// A degree of the layout as it stands in the mesh: no axis, one, or one per step.
class Degrees {
 public:
  /// `steps` are the sizes of its parts, major first; parts of size 1 are left out.
  Axes add(const std::string& name, std::vector<int64_t> steps) {
    std::erase(steps, 1);
    Axes added;
    for (size_t i = 0; i < steps.size(); ++i) {
      added.push_back(static_cast<ir::AxisId>(axes_.size()));
      axes_.push_back({steps.size() == 1 ? name : name + "." + std::to_string(i), steps[i]});
    }
    return added;
  }
  ir::Mesh mesh() const { return ir::Mesh(axes_); }

 private:
  std::vector<ir::MeshAxis> axes_;
};

Axes concatenated(Axes first, const Axes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The leading axes whose sizes multiply to `product`, and the rest.
struct Cut {
  Axes leading, trailing;
};

Cut cut_at(const Axes& axes, int64_t product, const ir::Mesh& mesh) {
  Cut cut;
  for (const ir::AxisId axis : axes) (mesh.size(cut.leading) < product ? cut.leading : cut.trailing).push_back(axis);
  MEGACPP_CHECK(mesh.size(cut.leading) == product) << "no step of " << to_string(axes, mesh) << " ends at " << product;
  return cut;
}

std::vector<int64_t> ratios(const std::vector<int64_t>& products) {
  std::vector<int64_t> steps;
  for (size_t i = 1; i < products.size(); ++i) steps.push_back(products[i] / products[i - 1]);
  return steps;
}

struct NamedAxes {
  Axes data, expert, context, model;
};

/// How blocks of one type are split over `model`, and over `context` where they swap tokens for heads.
std::map<Dim, Axes> axes_of_type(const recipe::BlockType& type, const NamedAxes& named,
                                 const blocks::Parallel& parallel) {
  const int64_t degree = parallel.mesh.size(named.model);
  std::map<Dim, Axes> axes;
  for (const blocks::Split& split : type.traits().splits) {
    const bool is_padded = split.how == blocks::Split::How::padded;
    Axes over = is_padded ? named.model : cut_at(named.model, parts_of(split.count, degree), parallel.mesh).leading;
    if (!parallel.ring_attention && split.swapped != Dim::whole)
      axes[split.swapped] = concatenated(over, named.context);
    axes[split.dim] = std::move(over);
  }
  return axes;
}

/// The first type that has a dimension says how it is split; others where they differ.
void spread_types(blocks::Parallel& parallel, const NamedAxes& named, const recipe::Model& model) {
  for (const recipe::BlockType& type : recipe::block_types(model))
    for (const auto& [dim, axes] : axes_of_type(type, named, parallel)) {
      const auto [first, is_new] = parallel.axes.try_emplace(dim, axes);
      if (!is_new && first->second != axes) parallel.letter_axes[type.letter][dim] = axes;
    }
}

void spread_experts(blocks::Parallel& parallel, const NamedAxes& named, const recipe::Model& model,
                    const recipe::Layout& layout) {
  const int64_t lead = layout.tensor_parallel / expert_tensor_parallel(layout);
  const Cut cut = cut_at(named.model, lead, parallel.mesh);
  parallel.axes[Dim::experts] = named.expert;
  parallel.axes[Dim::expert_mlp] = cut.trailing;
  parallel.axes[Dim::tokens] =
      token_parts(model, layout) > 1 ? concatenated(named.context, cut.leading) : named.context;
}

}  // namespace

int64_t kept_group(const recipe::Layout& layout) {
  const recipe::ReshardAfterForward& reshard = layout.reshard_after_forward;
  const bool counts = zero_level(layout) >= 3 && reshard.over == recipe::ReshardAfterForward::Over::group;
  return counts ? reshard.chips : 1;
}

bool is_balanced(const recipe::Model& model, const recipe::Layout& layout) {
  if (!layout.load_balance || layout.context_parallel == 1 ||
      layout.context_attention != recipe::ContextAttention::ring)
    return false;
  return std::ranges::any_of(recipe::block_types(model),
                             [](const recipe::BlockType& type) { return type.traits().ring_elements > 0; });
}

int64_t token_parts(const recipe::Model& model, const recipe::Layout& layout) {
  const bool arrive_split = layout.sequence_parallel && layout.tensor_parallel > 1;
  if (!arrive_split || !recipe::has_experts(model)) return 1;
  return layout.tensor_parallel / expert_tensor_parallel(layout);
}

const std::map<std::string, std::string>& degree_keys() {
  static const std::map<std::string, std::string> keys = {{"stage", "layout.pipeline_parallel"},
                                                          {"data", "layout.data_parallel"},
                                                          {"expert", "layout.expert_parallel"},
                                                          {"context", "layout.context_parallel"},
                                                          {"model", "layout.tensor_parallel"}};
  return keys;
}

blocks::Parallel spread(const recipe::Model& model, const ResolvedLayout& resolved) {
  const recipe::Layout& layout = resolved.keys();
  const int64_t kept = kept_group(layout);
  Degrees degrees;
  NamedAxes named;
  degrees.add("stage", {layout.pipeline_parallel});
  named.data = degrees.add("data", {layout.data_parallel / kept, kept});
  named.expert = degrees.add("expert", {layout.expert_parallel});
  named.context = degrees.add("context", {layout.context_parallel});
  named.model = degrees.add("model", ratios(step_products(model, layout)));

  blocks::Parallel parallel;
  parallel.mesh = degrees.mesh();
  parallel.balanced_order = is_balanced(model, layout);
  parallel.ring_attention = layout.context_attention == recipe::ContextAttention::ring;
  parallel.gathers_tokens = layout.dispatcher == recipe::Dispatcher::allgather;
  parallel.sequence_chunks = layout.context_parallel * (parallel.balanced_order ? 2 : 1);
  parallel.token_chunks = parallel.sequence_chunks * token_parts(model, layout);
  parallel.axes[Dim::batch] = concatenated(named.data, named.expert);
  parallel.axes[Dim::data] = named.data;
  parallel.axes[Dim::sequence] = named.context;
  parallel.axes[Dim::stream] = layout.sequence_parallel ? concatenated(named.context, named.model) : named.context;
  parallel.axes[Dim::vocab] = named.model;
  spread_types(parallel, named, model);
  if (recipe::has_experts(model)) spread_experts(parallel, named, model, layout);
  std::erase_if(parallel.axes, [](const auto& entry) { return entry.second.empty(); });
  return parallel;
}

}  // namespace megacpp::plan
