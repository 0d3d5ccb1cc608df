// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/factor_spec.h"

#include <map>
#include <sstream>

#include "megacpp/core/base/error.h"

namespace megacpp::ops {
namespace {

using DimNames = std::vector<std::vector<std::string>>;  // per dimension, factor names major to minor

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

// "b s (k g) d" -> {{b},{s},{k,g},{d}}
DimNames parse_tensor(std::string text) {
  std::string spaced;
  for (const char c : text) spaced += (c == '(' || c == ')') ? std::string(" ") + c + " " : std::string(1, c);
  DimNames dims;
  bool inside = false;
  for (const std::string& word : words(spaced)) {
    if (word == "(") {
      inside = true;
      dims.emplace_back();
    } else if (word == ")") {
      inside = false;
    } else if (inside) {
      dims.back().push_back(word);
    } else {
      dims.push_back({word});
    }
  }
  return dims;
}

std::vector<DimNames> parse_side(std::string_view side) {
  std::vector<DimNames> tensors;
  std::istringstream stream{std::string(side)};
  for (std::string tensor; std::getline(stream, tensor, ',');) tensors.push_back(parse_tensor(tensor));
  return tensors;
}

class Resolver {
 public:
  Resolver(std::string_view spec, std::string_view replicated)
      : spec_(spec), replicated_(words(std::string(replicated))) {}

  // Learns the sizes of single-name dimensions; learn_products, called next, those of products with one unknown.
  void learn(const std::vector<DimNames>& tensors, const Types& types) {
    MEGACPP_CHECK(tensors.size() >= types.size()) << "factors '" << spec_ << "' cover too few tensors";
    for (size_t t = 0; t < types.size(); ++t) {
      if (is_whole(tensors[t])) continue;
      MEGACPP_CHECK(tensors[t].size() == types[t].shape.size())
          << "factors '" << spec_ << "' of tensor " << t << " do not match " << to_string(types[t]);
      for (size_t d = 0; d < tensors[t].size(); ++d)
        if (tensors[t][d].size() == 1) set(tensors[t][d][0], types[t].shape[d]);
    }
  }

  void learn_products(const std::vector<DimNames>& tensors, const Types& types) {
    for (size_t t = 0; t < types.size(); ++t) {
      if (is_whole(tensors[t])) continue;
      for (size_t d = 0; d < tensors[t].size(); ++d) learn_product(tensors[t][d], types[t].shape[d]);
    }
  }

  std::vector<DimFactors> resolve(const std::vector<DimNames>& tensors, const Types& types) {
    std::vector<DimFactors> resolved;
    for (size_t t = 0; t < types.size(); ++t) {
      resolved.push_back(is_whole(tensors[t]) ? whole(types[t], t) : named(tensors[t]));
    }
    return resolved;
  }

  Factors finish(std::vector<DimFactors> operands, std::vector<DimFactors> results) {
    std::vector<bool> in_results(result_.factors.size(), false);
    for (const DimFactors& tensor : results)
      for (const auto& dim : tensor)
        for (const int factor : dim) in_results[static_cast<size_t>(factor)] = true;
    for (size_t f = 0; f < result_.factors.size(); ++f) {
      Factor& factor = result_.factors[f];
      if (factor.kind != FactorKind::replicated && !in_results[f]) factor.kind = FactorKind::reduction;
    }
    result_.operands = std::move(operands);
    result_.results = std::move(results);
    return std::move(result_);
  }

 private:
  static bool is_whole(const DimNames& tensor) { return tensor == DimNames{{"*"}}; }

  void learn_product(const std::vector<std::string>& names, int64_t size) {
    int64_t product = 1;
    const std::string* unknown = nullptr;
    for (const std::string& name : names) {
      if (const auto at = index_.find(name); at != index_.end()) {
        product *= result_.factors[static_cast<size_t>(at->second)].size;
        continue;
      }
      MEGACPP_CHECK(unknown == nullptr) << "factors " << *unknown << " and " << name << " of '" << spec_
                                        << "' are both unknown";
      unknown = &name;
    }
    if (unknown != nullptr) {
      const int64_t rest = size / std::max<int64_t>(1, product);
      set(*unknown, rest);
      product *= rest;
    }
    MEGACPP_CHECK(product == size) << "factors of a dimension of '" << spec_ << "' multiply to " << product
                                   << ", not to " << size;
  }

  void set(const std::string& name, int64_t size) {
    const auto [at, is_new] = index_.emplace(name, static_cast<int>(result_.factors.size()));
    if (is_new) {
      const bool replicate = std::find(replicated_.begin(), replicated_.end(), name) != replicated_.end();
      result_.factors.push_back({name, size, replicate ? FactorKind::replicated : FactorKind::parallel});
    } else {
      MEGACPP_CHECK(result_.factors[static_cast<size_t>(at->second)].size == size)
          << "factor " << name << " of '" << spec_
          << "' has two sizes: " << result_.factors[static_cast<size_t>(at->second)].size << " and " << size;
    }
  }

  DimFactors named(const DimNames& tensor) const {
    DimFactors dims;
    for (const auto& names : tensor) {
      dims.emplace_back();
      for (const std::string& name : names) dims.back().push_back(index_.at(name));
    }
    return dims;
  }

  DimFactors whole(const ir::TensorType& type, size_t tensor) {
    DimFactors dims;
    for (size_t d = 0; d < type.shape.size(); ++d) {
      dims.push_back({static_cast<int>(result_.factors.size())});
      result_.factors.push_back(
          {"whole" + std::to_string(tensor) + "_" + std::to_string(d), type.shape[d], FactorKind::replicated});
    }
    return dims;
  }

  std::string spec_;
  std::vector<std::string> replicated_;
  std::map<std::string, int> index_;
  Factors result_;
};

}  // namespace

Factors factors_from(const NodeView& view, std::string_view spec, std::string_view replicated) {
  const size_t arrow = spec.find("->");
  MEGACPP_CHECK(arrow != std::string_view::npos) << "factors '" << spec << "' lack '->'";
  const std::vector<DimNames> operands = parse_side(spec.substr(0, arrow));
  const std::vector<DimNames> results = parse_side(spec.substr(arrow + 2));
  Resolver resolver(spec, replicated);
  resolver.learn(operands, view.operands);
  resolver.learn(results, view.results);
  resolver.learn_products(operands, view.operands);
  resolver.learn_products(results, view.results);
  std::vector<DimFactors> operand_dims = resolver.resolve(operands, view.operands);
  std::vector<DimFactors> result_dims = resolver.resolve(results, view.results);
  return resolver.finish(std::move(operand_dims), std::move(result_dims));
}

std::string numbered_names(std::string_view prefix, int64_t count) {
  std::string names;
  for (int64_t d = 0; d < count; ++d) names += std::string(prefix) + std::to_string(d) + " ";
  return names;
}

Factors elementwise_factors(const NodeView& view) {
  Factors factors;
  const ir::Shape& shape = view.results[0].shape;
  DimFactors dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    factors.factors.push_back({"d" + std::to_string(d), shape[d], FactorKind::parallel});
    dims.push_back({static_cast<int>(d)});
  }
  factors.operands.assign(view.operands.size(), dims);
  factors.results.assign(view.results.size(), dims);
  return factors;
}

}  // namespace megacpp::ops
