// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/slice.h"

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/error.h"

namespace megacpp::hw {
namespace {

constexpr size_t kSuggestions = 3;

/// Chips of a host along a dimension of the slice; hosts are never larger than it.
int64_t host_size(const Slice& slice, size_t dimension) {
  const Sizes& host = slice.chip.slices.host;
  return std::min(dimension < host.size() ? host[dimension] : 1, slice.sizes[dimension]);
}

int64_t hosts_along(const Slice& slice, size_t dimension) {
  const int64_t host = host_size(slice, dimension);
  return (slice.sizes[dimension] + host - 1) / host;
}

bool is_of_blocks(const SliceRules& rules, const Sizes& sizes) {
  const auto is_multiple = [&](int64_t size) { return size % rules.block == 0; };
  return rules.block > 0 && sizes.size() == rules.host.size() && product(sizes) <= rules.largest &&
         std::all_of(sizes.begin(), sizes.end(), is_multiple);
}

bool is_valid(const Chip& chip, const Sizes& sizes) {
  const std::vector<Sizes>& valid = chip.slices.valid;
  return std::find(valid.begin(), valid.end(), sizes) != valid.end() || is_of_blocks(chip.slices, sizes);
}

/// How unlike two slices are: the numbers of chips first, then the shapes.
double distance(Sizes a, Sizes b) {
  const auto log_ratio = [](int64_t x, int64_t y) {
    return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
  };
  double shapes = 0;
  const double chips = log_ratio(product(a), product(b));
  a.resize(3, 1);
  b.resize(3, 1);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  for (size_t i = 0; i < a.size(); ++i) shapes += log_ratio(a[i], b[i]);
  return chips + shapes / 16;
}

std::string nearest_slices(const Chip& chip, const std::string& written, const Sizes& wanted) {
  std::vector<Sizes> slices = valid_slices(chip);
  std::stable_sort(slices.begin(), slices.end(),
                   [&](const Sizes& a, const Sizes& b) { return distance(a, wanted) < distance(b, wanted); });
  std::string text;
  for (size_t i = 0; i < std::min(kSuggestions, slices.size()); ++i)
    text += (i == 0                                           ? ""
             : i + 1 == std::min(kSuggestions, slices.size()) ? " or "
                                                              : ", ") +
            written + ":" + to_text(slices[i]);
  return text;
}

std::string valid_text(const Chip& chip) {
  std::string text;
  for (const Sizes& slice : chip.slices.valid) text += (text.empty() ? "" : ", ") + to_text(slice);
  if (chip.slices.block == 0) return "one of " + text;
  return text + ", or multiples of " + std::to_string(chip.slices.block) + " in each dimension up to " +
         std::to_string(chip.slices.largest) + " chips";
}

struct Name {
  std::string whole;
  std::string chip;
  std::string shape;  // behind the last colon; empty without one
};

Name split(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) return {name, name, ""};
  return {name, name.substr(0, colon), name.substr(colon + 1)};
}

[[noreturn]] void refuse(const Name& name, std::string got, std::string wanted, std::string next) {
  base::raise(base::Code::E1602, {.where = "hardware '" + name.whole + "'",
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = std::move(next)});
}

std::string got_shape(const Name& name) { return name.shape.empty() ? "no shape" : "'" + name.shape + "'"; }

Sizes torus_sizes(const Name& name, const Chip& chip) {
  const std::optional<Sizes> sizes = read_sizes(name.shape);
  if (sizes && is_valid(chip, *sizes)) return *sizes;
  refuse(name, sizes ? name.shape + ", " + std::to_string(product(*sizes)) + " chips" : got_shape(name),
         valid_text(chip), "take " + nearest_slices(chip, name.chip, sizes.value_or(Sizes{4})));
}

/// A count of chips: part of a node, or whole ones.
Sizes node_sizes(const Name& name, const Chip& chip) {
  const int64_t node = chip.slices.host[0];
  const std::optional<Sizes> sizes = read_sizes(name.shape);
  const std::string wanted = "a number of chips: up to " + std::to_string(node) + ", or a multiple of it";
  const auto with = [&](int64_t chips) { return name.chip + ":" + std::to_string(chips); };
  if (!sizes || sizes->size() != 1) refuse(name, got_shape(name), wanted, "take " + with(node));
  const int64_t chips = sizes->front(), below = chips / node * node;
  if (chips <= node) return {chips};
  if (chips != below) refuse(name, name.shape, wanted, "take " + with(below) + " or " + with(below + node));
  return {node, chips / node};
}

Slice host_target(const Name& name, const TargetOptions& options) {
  const std::optional<Sizes> sizes = name.whole == "host" ? Sizes{1} : read_sizes(name.shape);
  if (!sizes || sizes->size() != 1) refuse(name, got_shape(name), "host, or host:N for N virtual chips", "take host:1");
  if (!options.host_rates) refuse(name, "this machine", "hardware elsewhere", "name a slice, such as v6e:2x2");
  const int64_t sharing = options.host_chips > 0 ? options.host_chips : sizes->front();
  return {"host:" + to_text(*sizes), host_chip(options.host_rates(), sharing), *sizes};
}

}  // namespace

Sizes Slice::coordinates(int64_t index) const {
  MEGACPP_CHECK(index >= 0 && index < chips()) << "chip " << index << " of " << chips();
  Sizes place;
  for (const int64_t size : sizes) {
    place.push_back(index % size);
    index /= size;
  }
  return place;
}

int64_t Slice::hosts() const {
  int64_t hosts = 1;
  for (size_t i = 0; i < sizes.size(); ++i) hosts *= hosts_along(*this, i);
  return hosts;
}

int64_t Slice::host_of(int64_t index) const {
  const Sizes place = coordinates(index);
  int64_t host = 0;
  for (size_t i = sizes.size(); i-- > 0;) host = host * hosts_along(*this, i) + place[i] / host_size(*this, i);
  return host;
}

std::string Slice::host_name(int64_t index) const { return "host " + std::to_string(host_of(index)); }

bool Slice::wraps(size_t dimension) const {
  const SliceRules& rules = chip.slices;
  if (rules.shape == SliceShape::nodes) return sizes[dimension] > 1;
  const auto is_multiple = [&](int64_t size) { return size % rules.ring_multiple == 0; };
  if (rules.ring_multiple == 0 || !is_multiple(sizes[dimension])) return false;
  return !rules.rings_need_all || std::all_of(sizes.begin(), sizes.end(), is_multiple);
}

int64_t Slice::links_along(size_t dimension) const { return sizes[dimension] - (wraps(dimension) ? 0 : 1); }

Slice parse_target(const std::string& text, const TargetOptions& options) {
  const Name name = split(text);
  if (name.chip == "host") return host_target(name, options);
  const Chip chip = find_chip(name.chip, options.places);
  const bool is_torus = chip.slices.shape == SliceShape::torus;
  const Sizes sizes = is_torus ? torus_sizes(name, chip) : node_sizes(name, chip);
  const std::string shape = is_torus ? to_text(sizes) : std::to_string(product(sizes));
  return {(names_file(name.chip) ? name.chip : chip.name) + ":" + shape, chip, sizes};
}

std::vector<Sizes> valid_slices(const Chip& chip) {
  const SliceRules& rules = chip.slices;
  std::vector<Sizes> slices = rules.valid;
  const auto add_blocks = [&](const auto& self, Sizes sizes) -> void {
    if (sizes.size() == rules.host.size()) return slices.push_back(sizes);
    for (int64_t next = sizes.empty() ? rules.block : sizes.back(); product(sizes) * next <= rules.largest;
         next += rules.block) {
      Sizes longer = sizes;
      longer.push_back(next);
      self(self, longer);
    }
  };
  if (rules.block > 0) add_blocks(add_blocks, {});
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Sizes& a, const Sizes& b) { return product(a) < product(b); });
  return slices;
}

}  // namespace megacpp::hw
