// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/tensor_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <set>

#include "megacpp/program/recipe/block_types.h"

namespace megacpp::plan {

std::vector<Splittable> splittables(const recipe::Model& model) {
  std::vector<Splittable> list;
  for (const recipe::BlockType& type : recipe::block_types(model))
    for (const blocks::Split& split : type.traits().splits)
      if (split.how != blocks::Split::How::padded) list.push_back({type.path(split.key), type.letter, split});
  return list;
}

bool can_split(const blocks::Split& split, int64_t tensor_parallel) {
  const bool is_shareable = split.how == blocks::Split::How::shared;
  return split.count % tensor_parallel == 0 || (is_shareable && tensor_parallel % split.count == 0);
}

int64_t expert_tensor_parallel(const recipe::Layout& layout) {
  return layout.expert_tensor_parallel == 0 ? layout.tensor_parallel : layout.expert_tensor_parallel;
}

int64_t parts_of(int64_t count, int64_t tensor_parallel) { return std::gcd(count, tensor_parallel); }

std::vector<int64_t> step_products(const recipe::Model& model, const recipe::Layout& layout) {
  std::set<int64_t> products = {1, layout.tensor_parallel};
  for (const Splittable& what : splittables(model)) products.insert(parts_of(what.split.count, layout.tensor_parallel));
  if (recipe::has_experts(model)) products.insert(layout.tensor_parallel / expert_tensor_parallel(layout));
  return {products.begin(), products.end()};
}

bool is_chain(const std::vector<int64_t>& products) {
  for (size_t i = 1; i < products.size(); ++i)
    if (products[i] % products[i - 1] != 0) return false;
  return true;
}

base::Decision tensor_parallel_fits(const recipe::Model& model, const recipe::Layout& layout) {
  const int64_t degree = layout.tensor_parallel;
  for (const Splittable& what : splittables(model)) {
    if (!can_split(what.split, degree))
      return base::Decision::no(fmt::format("a {} of {}: {}", what.is_shareable() ? "divisor or a multiple" : "divisor",
                                            what.split.count, what.path));
  }
  if (recipe::has_experts(model) && degree % expert_tensor_parallel(layout) != 0)
    return base::Decision::no(
        fmt::format("a multiple of {}: layout.expert_tensor_parallel", layout.expert_tensor_parallel));
  const std::vector<int64_t> products = step_products(model, layout);
  if (!is_chain(products))
    return base::Decision::no(fmt::format(
        "parts that divide one another; KV heads, groups and experts ask for {} chips", fmt::join(products, ", ")));
  return base::Decision::yes();
}

}  // namespace megacpp::plan
