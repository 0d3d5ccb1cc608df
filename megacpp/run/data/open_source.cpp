// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/open_source.h"

#include <charconv>
#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/run/data/blend.h"
#include "megacpp/run/data/indexed_dataset.h"
#include "megacpp/run/data/text_corpus.h"

namespace megacpp::data {
namespace {

double weight_of(const std::string& item, std::string_view text) {
  double weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  MEGACPP_REQUIRE(error == std::errc() && end == text.data() + text.size() && weight > 0 && std::isfinite(weight),
                  E1003,
                  {.where = "data.blend",
                   .got = item,
                   .wanted = "PATH, or PATH=WEIGHT with a weight above 0",
                   .next = "give a weight such as 0.3, or leave the dataset out"});
  return weight;
}

// The path may hold '=': the weight stands behind the last one.
Blend::Part part_of(const std::string& item) {
  const size_t at = item.rfind('=');
  const double weight = at == std::string::npos ? 1.0 : weight_of(item, std::string_view(item).substr(at + 1));
  return {std::make_unique<IndexedDataset>(item.substr(0, at)), weight};
}

}  // namespace

std::unique_ptr<TokenSource> open_source(const recipe::Data& data) {
  if (data.blend.empty()) return std::make_unique<TextCorpus>(load_text(data.text));
  MEGACPP_REQUIRE(data.text.empty(), E1003,
                  {.where = "data.blend",
                   .got = "data.text and data.blend",
                   .wanted = "one of the two",
                   .next = "turn the text into a dataset (megacpp data tokenize) and add it to data.blend"});
  std::vector<Blend::Part> parts;
  for (const std::string& item : data.blend) parts.push_back(part_of(item));
  return std::make_unique<Blend>(std::move(parts));
}

}  // namespace megacpp::data
