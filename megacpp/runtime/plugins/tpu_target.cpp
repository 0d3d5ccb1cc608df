// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/tpu_target.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "megacpp/base/error.h"
#include "megacpp/base/suggest.h"
#include "megacpp/runtime/plugins/flags.h"

namespace megacpp::runtime::plugins {
namespace {

constexpr int64_t kPodSide = 16;  // of the two-dimensional chips: an axis that spans the pod closes to a ring

// "16x16" in numbers; nothing for other texts.
std::optional<std::vector<int64_t>> shape_of(std::string_view text) {
  std::vector<int64_t> shape;
  while (true) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 1 || size > 1'000'000) return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return shape.size() <= 3 ? std::optional(shape) : std::nullopt;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

[[noreturn]] void refuse(const std::string& name, std::string got, std::string next) {
  base::raise(base::Code::E1506, {.where = "--target " + name,
                                  .got = std::move(got),
                                  .wanted = "a chip and a shape, such as v6e:4x4, v5e:2x2, v5:2x2x1 or tpu7x:2x2x1",
                                  .next = std::move(next)});
}

}  // namespace

const std::vector<TpuPeaks>& tpu_peaks() {
  // docs.cloud.google.com/tpu/docs, pages v5e, v5p, v6e and tpu7x (2026-11): bf16 TFLOP/s and HBM GB/s of a chip. One
  // of the last has two devices that share its rates.
  static const std::vector<TpuPeaks> table = {
      {"v5e", 197e12, 819e9},
      {"v5p", 459e12, 2765e9},
      {"v6e", 918e12, 1640e9},
      {"v7x", 2307e12 / 2, 7380e9 / 2, 2},
  };
  return table;
}

const TpuPeaks* peaks_of(std::string_view generation) {
  for (const TpuPeaks& peaks : tpu_peaks())
    if (peaks.generation == generation) return &peaks;
  return nullptr;
}

int64_t TpuTarget::chips() const {
  int64_t chips = 1;
  for (const int64_t size : shape) chips *= size;
  return chips;
}

int64_t TpuTarget::devices() const {
  const TpuPeaks* peaks = peaks_of(generation);
  return chips() * (peaks == nullptr ? 1 : peaks->per_chip);
}

std::vector<std::pair<std::string, std::vector<int64_t>>> TpuTarget::options() const {
  std::vector<std::pair<std::string, std::vector<int64_t>>> options;
  // Hosts are taken to hold 2x2 chips, and no axis to be a ring, unless it is said.
  if (chips() == 1) options.push_back({"chips_per_host_bounds", {1, 1, 1}});
  std::vector<int64_t> wrap(3, 0);
  if (shape.size() == 2)
    for (size_t i = 0; i < shape.size(); ++i) wrap[i] = shape[i] == kPodSide ? 1 : 0;
  if (std::find(wrap.begin(), wrap.end(), 1) != wrap.end()) options.push_back({"wrap", wrap});
  return options;
}

bool names_tpu(std::string_view name) { return !generation_of_topology(name).empty(); }

TpuTarget read_tpu_target(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string chip = name.substr(0, colon);
  static const std::vector<std::string> kChips = {"v6e", "v5e", "v5", "tpu7x"};
  TpuTarget target{name, generation_of_topology(name), {}};
  if (target.generation.empty())
    refuse(name, "'" + chip + "'", base::did_you_mean(chip, kChips, "name one of these chips"));
  const auto shape = colon == std::string::npos ? std::nullopt : shape_of(std::string_view(name).substr(colon + 1));
  if (!shape) refuse(name, "no shape behind '" + chip + "'", "write it as chips along each axis: " + chip + ":2x2");
  target.shape = *shape;
  return target;
}

}  // namespace megacpp::runtime::plugins
