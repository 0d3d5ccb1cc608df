// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hw/host_chip.h"

#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"

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
  visit("product_bytes_per_second", rates.product_bytes_per_second);
  visit("product_wait", rates.product_wait);
  visit("attention_flops", rates.attention_flops);
  visit("attention_grad_flops", rates.attention_grad_flops);
  visit("exponentials_per_second", rates.scores.exponentials);
  visit("score_rows_per_second", rates.scores.rows);
  visit("grad_exponentials_per_second", rates.score_grads.exponentials);
  visit("grad_score_rows_per_second", rates.score_grads.rows);
  visit("ssd_flops", rates.ssd_flops);
  visit("ssd_positions_per_second", rates.ssd_positions_per_second);
  visit("elementwise_per_second", rates.elementwise_per_second);
  visit("bytes_per_second", rates.bytes_per_second);
  visit("moves", rates.moves);
  visit("near_products", rates.near.products);
  visit("near_attention", rates.near.attention);
  visit("near_attention_grad", rates.near.attention_grad);
  visit("near_ssd", rates.near.ssd);
  visit("launch_seconds", rates.launch_seconds);
  visit("date", rates.date);
}

void read(const base::Json& json, double& value) {
  value = base::as_number(json).value_or(std::numeric_limits<double>::quiet_NaN());
}
void read(const base::Json& json, int64_t& value) { value = base::as_integer(json).value_or(0); }
// [[distance, bytes_per_second], ...]: nothing where one of them is no pair of numbers.
void read(const base::Json& json, std::vector<MoveRate>& value) {
  if (!json.is_array()) return;
  for (const base::Json& move : json) {
    const bool is_pair = move.is_array() && move.size() == 2;
    const auto distance = is_pair ? base::as_integer(move[0]) : std::nullopt;
    const auto rate = is_pair ? base::as_number(move[1]) : std::nullopt;
    if (!distance || !rate) return value.clear();
    value.push_back({*distance, *rate});
  }
}
void read(const base::Json& json, std::string& value) {
  const std::string* text = base::as_text(json);
  value = text == nullptr ? "" : *text;
}

template <typename Value>
void write(base::Json& json, const Value& value) {
  json = value;
}
void write(base::Json& json, const std::vector<MoveRate>& moves) {
  json = base::Json::array();
  for (const MoveRate& move : moves) json.push_back({move.distance, move.bytes_per_second});
}

}  // namespace

base::Json to_json(const HostRates& rates) {
  base::Json json = base::Json::object();
  visit_rates([&json](const char* name, const auto& value) { write(json[name], value); }, rates);
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
  chip.moves = shared_moves(rates.moves, virtual_chips);
  chip.near = shared_distances(rates.near, virtual_chips);
  chip.product_bytes_per_second = rates.product_bytes_per_second * share;
  chip.product_wait = rates.product_wait;
  chip.scores = {.exponentials = rates.scores.exponentials * share, .rows = rates.scores.rows * share};
  chip.score_grads = {.exponentials = rates.score_grads.exponentials * share, .rows = rates.score_grads.rows * share};
  chip.elementwise_per_second = rates.elementwise_per_second * share;
  chip.reached.launch = rates.cores > virtual_chips ? rates.launch_seconds : 0;  // a chip of one core tells nobody
  chip.reached.ssd = rates.ssd_flops / rates.matrix_flops;
  chip.ssd_positions_per_second = rates.ssd_positions_per_second * share;
  // One share for heads of every width: what they have beside their products has rates of its own.
  if (rates.attention_flops > 0) chip.reached.attention[1] = rates.attention_flops / rates.matrix_flops;
  if (rates.attention_grad_flops > 0) chip.reached.attention_grad[1] = rates.attention_grad_flops / rates.matrix_flops;
  chip.reached.products = chip.reached.traffic = 1;  // rates are measured with the kernels that steps run
  // Kernels compute in f32 whatever they store.
  for (const char* dtype : {"f32", "bf16"}) chip.peak_flops[dtype] = rates.matrix_flops * share;
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
  for (const MoveRate& move : rates.moves)
    fact("memory.moves." + std::to_string(move.distance), text_of(move.bytes_per_second));
  fact("compute.near_products", std::to_string(rates.near.products));
  fact("compute.near_attention", std::to_string(rates.near.attention));
  fact("compute.near_attention_grad", std::to_string(rates.near.attention_grad));
  fact("compute.near_ssd", std::to_string(rates.near.ssd));
  fact("compute.f32", text_of(rates.matrix_flops));
  fact("compute.product_bytes", text_of(rates.product_bytes_per_second));
  fact("compute.product_wait", text_of(rates.product_wait));
  fact("compute.attention", text_of(rates.attention_flops));
  fact("compute.attention_grad", text_of(rates.attention_grad_flops));
  fact("compute.exponentials", text_of(rates.scores.exponentials));
  fact("compute.score_rows", text_of(rates.scores.rows));
  fact("compute.grad_exponentials", text_of(rates.score_grads.exponentials));
  fact("compute.grad_score_rows", text_of(rates.score_grads.rows));
  fact("compute.ssd", text_of(rates.ssd_flops));
  fact("compute.ssd_positions", text_of(rates.ssd_positions_per_second));
  fact("compute.elementwise", text_of(rates.elementwise_per_second));
  fact("compute.launch", text_of(rates.launch_seconds));
  chip.facts.push_back({"links.memory.latency", text_of(kWakeUp), "an estimate", rates.date});
  return chip;
}

}  // namespace megacpp::hw
