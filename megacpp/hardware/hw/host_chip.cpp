// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/hw/host_chip.h"

#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/dtype.h"

namespace megacpp::hw {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr double kWakeUp = 5e-6;  // seconds until a waiting thread runs: an estimate, good enough beside the copies

std::string text_of(double value) {
  std::ostringstream text;
  text.precision(4);
  text << value;
  return text.str();
}

/// The members of the object, for reading and for writing.
template <typename Visit, typename Rates>
void visit_rates(const Visit& visit, Rates& rates) {
  visit("processor", rates.processor);
  visit("kernels", rates.kernels);
  visit("cores", rates.cores);
  visit("memory", rates.memory);
  visit("matrix_flops", rates.matrix_flops);
  visit("scan_flops", rates.scan_flops);
  visit("bytes_per_second", rates.bytes_per_second);
  visit("date", rates.date);
}

void read(const base::Json& json, double& value) {
  value = base::as_number(json).value_or(std::numeric_limits<double>::quiet_NaN());
}
void read(const base::Json& json, int64_t& value) { value = base::as_integer(json).value_or(0); }
void read(const base::Json& json, std::string& value) {
  const std::string* text = base::as_text(json);
  value = text == nullptr ? "" : *text;
}

}  // namespace

base::Json to_json(const HostRates& rates) {
  base::Json json = base::Json::object();
  visit_rates([&json](const char* name, const auto& value) { json[name] = value; }, rates);
  return json;
}

HostRates host_rates_of(const base::Json& json) {
  HostRates rates;
  const auto visit = [&json](const char* name, auto& value) {
    if (const base::Json* member = base::find_member(json, name)) read(*member, value);
  };
  visit_rates(visit, rates);
  return rates;
}

Chip host_chip(const HostRates& rates, int64_t virtual_chips) {
  MEGACPP_CHECK(virtual_chips > 0 && rates.matrix_flops > 0 && rates.bytes_per_second > 0 && rates.memory > 0)
      << "rates of the host are not measured";
  const double share = 1.0 / static_cast<double>(virtual_chips);
  Chip chip;
  chip.name = chip.plugin_name = "host";
  chip.title = "this machine: " + std::to_string(rates.cores) + " cores" +
               (rates.processor.empty() ? "" : " of " + rates.processor);
  chip.origin = "measured";
  chip.kind = ChipKind::host;
  chip.nominal_bytes = chip.usable_bytes = rates.memory / virtual_chips;
  chip.alignment = kCacheLine;
  chip.memory_bytes_per_second = rates.bytes_per_second * share;
  // One share for attention and state-space products, whatever the width of their heads.
  const double scans = rates.scan_flops / rates.matrix_flops;
  chip.reached.ssd = scans;
  if (scans > 0) chip.reached.attention[1] = chip.reached.attention_grad[1] = scans;
  chip.reached.products = chip.reached.traffic = 1;  // rates are measured with the kernels that steps run
  // Kernels compute in f32 whatever they store.
  for (const std::string& precision : ir::precision_names())
    chip.peak_flops[std::string(ir::record(ir::dtype_named(precision)).rate)] = rates.matrix_flops * share;
  // Chips read straight from each other's buffers: every byte is read once and written once.
  chip.links.push_back({.name = "memory",
                        .scope = LinkScope::node,
                        .bytes_per_second = rates.bytes_per_second * share / 2,
                        .latency = kWakeUp});
  chip.slices.shape = SliceShape::nodes;
  chip.slices.host = {virtual_chips};

  const auto fact = [&](const std::string& name, const std::string& value) {
    chip.facts.push_back({name, value, "measured on this machine", rates.date});
  };
  fact("cores", std::to_string(rates.cores));
  fact("memory.nominal", std::to_string(rates.memory));
  fact("memory.bandwidth", text_of(rates.bytes_per_second));
  fact("compute.f32", text_of(rates.matrix_flops));
  fact("compute.scans", text_of(rates.scan_flops));
  chip.facts.push_back({"links.memory.latency", text_of(kWakeUp), "an estimate", rates.date});
  return chip;
}

}  // namespace megacpp::hw
