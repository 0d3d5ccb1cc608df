// SPDX-License-Identifier: Apache-2.0
#include "megacpp/plan/tensor_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <set>

namespace megacpp::plan {

std::vector<Splittable> splittables(const recipe::Model& model, const recipe::ExpandedPattern& pattern) {
  std::vector<Splittable> list;
  if (recipe::has_family(pattern, 'A')) {
    list.push_back({"model.attention.heads", model.attention.heads});
    list.push_back({"model.attention.kv_heads", model.attention.kv_heads, true});
  }
  if (recipe::has_family(pattern, 'M')) {
    list.push_back({"model.mamba.heads", model.mamba.heads});
    list.push_back({"model.mamba.groups", model.mamba.groups, true});
  }
  if (recipe::has_family(pattern, 'R')) list.push_back({"model.recurrent.heads", model.recurrent.heads});
  return list;
}

bool can_split(const Splittable& what, int64_t tensor_parallel) {
  return what.count % tensor_parallel == 0 || (what.shareable && tensor_parallel % what.count == 0);
}

bool has_experts(const recipe::Model& model, const recipe::ExpandedPattern& pattern) {
  return recipe::has_family(pattern, 'E') && model.feed_forward.experts > 0;
}

int64_t expert_tensor_parallel(const recipe::Layout& layout) {
  return layout.expert_tensor_parallel == 0 ? layout.tensor_parallel : layout.expert_tensor_parallel;
}

int64_t parts_of(int64_t count, int64_t tensor_parallel) { return std::gcd(count, tensor_parallel); }

std::vector<int64_t> step_products(const recipe::Model& model, const recipe::Layout& layout) {
  const recipe::ExpandedPattern pattern = recipe::expand(model.pattern, model.depth);
  std::set<int64_t> products = {1, layout.tensor_parallel};
  for (const Splittable& what : splittables(model, pattern))
    products.insert(parts_of(what.count, layout.tensor_parallel));
  if (has_experts(model, pattern)) products.insert(layout.tensor_parallel / expert_tensor_parallel(layout));
  return {products.begin(), products.end()};
}

bool is_chain(const std::vector<int64_t>& products) {
  for (size_t i = 1; i < products.size(); ++i)
    if (products[i] % products[i - 1] != 0) return false;
  return true;
}

base::Decision tensor_parallel_fits(const recipe::Model& model, const recipe::Layout& layout) {
  const int64_t degree = layout.tensor_parallel;
  const recipe::ExpandedPattern pattern = recipe::expand(model.pattern, model.depth);
  for (const Splittable& what : splittables(model, pattern)) {
    if (!can_split(what, degree))
      return base::Decision::no(
          fmt::format("a {} of {}: {}", what.shareable ? "divisor or a multiple" : "divisor", what.count, what.path));
  }
  if (has_experts(model, pattern) && degree % expert_tensor_parallel(layout) != 0)
    return base::Decision::no(
        fmt::format("a multiple of {}: layout.expert_tensor_parallel", layout.expert_tensor_parallel));
  const std::vector<int64_t> products = step_products(model, layout);
  if (!is_chain(products))
    return base::Decision::no(fmt::format(
        "parts that divide one another; KV heads, groups and experts ask for {} chips", fmt::join(products, ", ")));
  return base::Decision::yes();
}

}  // namespace megacpp::plan
