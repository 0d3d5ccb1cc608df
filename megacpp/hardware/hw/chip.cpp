// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/chip.h"

#include <algorithm>
#include <charconv>

#include "megacpp/hardware/hw/chip_fields.h"

namespace megacpp::hw {

std::string_view to_string(ChipKind kind) { return base::text_of(kind); }
std::string_view to_string(LinkScope scope) { return base::text_of(scope); }
std::string_view to_string(SliceShape shape) { return base::text_of(shape); }

std::string to_text(const Sizes& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::optional<Sizes> read_sizes(std::string_view text) {
  Sizes sizes;
  while (true) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 1 || size > 1'000'000) return std::nullopt;
    sizes.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return sizes.size() <= 3 ? std::optional(sizes) : std::nullopt;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

int64_t product(const Sizes& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

std::optional<double> Chip::peak(std::string_view dtype) const {
  const auto found = peak_flops.find(std::string(dtype));
  return found == peak_flops.end() ? std::nullopt : std::optional(found->second);
}

const Fact* Chip::fact(std::string_view name) const {
  for (const Fact& fact : facts)
    if (fact.name == name) return &fact;
  return nullptr;
}

const Link* Chip::link(std::string_view name) const {
  for (const Link& link : links)
    if (link.name == name) return &link;
  return nullptr;
}

const Link* Chip::fastest_link() const {
  const Link* fastest = nullptr;
  for (const Link& link : links)
    if (link.scope != LinkScope::cluster && (fastest == nullptr || link.bytes_per_second > fastest->bytes_per_second))
      fastest = &link;
  return fastest;
}

Chip rates_by(const Chip& chip, std::string_view backend) {
  Chip seen = chip;
  seen.reached_by.clear();
  const auto measured = chip.reached_by.find(std::string(backend));
  if (measured == chip.reached_by.end()) return seen;
  seen.reached = measured->second;
  const std::string all = "reached.", own = all + measured->first + ".";
  std::erase_if(seen.facts,
                [&](const Fact& fact) { return fact.name.starts_with(all) && !fact.name.starts_with(own); });
  for (Fact& fact : seen.facts)
    if (fact.name.starts_with(own)) fact.name.replace(0, own.size(), all);
  return seen;
}

Chip device_of(const Chip& chip) {
  if (chip.devices == 1) return chip;
  Chip device = chip;
  const double share = 1.0 / static_cast<double>(chip.devices);
  device.devices = 1;
  device.nominal_bytes /= chip.devices;
  device.usable_bytes /= chip.devices;
  if (device.reserved_bytes) *device.reserved_bytes /= chip.devices;
  device.memory_bytes_per_second *= share;
  for (auto& [dtype, flops] : device.peak_flops) flops *= share;
  for (Link& link : device.links) link.bytes_per_second *= share;
  return device;
}

}  // namespace megacpp::hw
