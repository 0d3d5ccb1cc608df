// SPDX-License-Identifier: Apache-2.0
#include "megacpp/launch/shared_facts.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "megacpp/base/json.h"

namespace megacpp::launch {
namespace {

using base::Json;

// Written by another process of this very build: what is not as written is a defect.
Json parse(const std::string& text) { return base::parse_json(text, base::Code::E9001, "a fact of another process"); }

Json json_of(const catalog::Signature& signature) {
  const catalog::Build& build = signature.build;
  return {{"code_version", build.code_version}, {"platform", build.platform},
          {"threads", build.threads},           {"processor", build.processor},
          {"hardware", signature.hardware},     {"model", signature.model},
          {"model_hash", signature.model_hash}, {"layout", signature.layout},
          {"features", signature.features},     {"shape", signature.shape}};
}

catalog::Signature signature_of(const Json& json) {
  return {.build = {.code_version = json.at("code_version"),
                    .platform = json.at("platform"),
                    .threads = json.at("threads"),
                    .processor = json.at("processor")},
          .hardware = json.at("hardware"),
          .model = json.at("model"),
          .model_hash = json.at("model_hash"),
          .layout = json.at("layout"),
          .features = json.at("features"),
          .shape = json.at("shape")};
}

Json bytes_json(const std::optional<int64_t>& bytes) { return bytes ? Json(*bytes) : Json(); }

std::optional<int64_t> bytes_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<int64_t>());
}

Json json_of(const runtime::Transfers& transfers) { return {{"count", transfers.count}, {"bytes", transfers.bytes}}; }

runtime::Transfers transfers_of(const Json& json) { return {.count = json.at("count"), .bytes = json.at("bytes")}; }

Json json_of(const ChipReport& chip) {
  Json away = Json::array();
  for (const runtime::TierUse& use : chip.memory.away)
    away.push_back({{"tier", use.tier}, {"planned", use.planned_bytes}, {"measured", use.measured_bytes}});
  return {{"chip", chip.chip},
          {"used", bytes_json(chip.memory.used_bytes)},
          {"limit", bytes_json(chip.memory.limit_bytes)},
          {"planned", bytes_json(chip.memory.planned_peak_bytes)},
          {"measured", bytes_json(chip.memory.measured_peak_bytes)},
          {"away", std::move(away)}};
}

ChipReport chip_of(const Json& json) {
  std::vector<runtime::TierUse> away;
  for (const Json& use : json.at("away")) away.push_back({use.at("tier"), use.at("planned"), use.at("measured")});
  return {.chip = json.at("chip"),
          .memory = {.used_bytes = bytes_of(json.at("used")),
                     .limit_bytes = bytes_of(json.at("limit")),
                     .planned_peak_bytes = bytes_of(json.at("planned")),
                     .measured_peak_bytes = bytes_of(json.at("measured")),
                     .away = std::move(away)}};
}

Json json_of(const std::optional<runtime::StepParts>& parts) {
  if (!parts) return {};
  return {{"arithmetic", parts->arithmetic},
          {"memory", parts->memory},
          {"links", parts->links},
          {"bubble", parts->bubble},
          {"other", parts->other}};
}

std::optional<runtime::StepParts> parts_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return runtime::StepParts{.arithmetic = json.at("arithmetic"),
                            .memory = json.at("memory"),
                            .links = json.at("links"),
                            .bubble = json.at("bubble"),
                            .other = json.at("other")};
}

}  // namespace

std::string rates_text(const hw::HostRates& rates) { return base::to_text(hw::to_json(rates)); }

hw::HostRates rates_of(const std::string& text) { return hw::host_rates_of(parse(text)); }

std::string samples_text(const std::vector<catalog::Sample>& samples) {
  Json all = Json::array();
  for (const catalog::Sample& sample : samples) {
    Json parts = Json::array();
    for (const catalog::Part& part : sample.parts) parts.push_back({{"name", part.name}, {"value", part.value}});
    all.push_back({{"signature", json_of(sample.signature)},
                   {"at", sample.at},
                   {"lane", sample.lane},
                   {"quantity", sample.quantity},
                   {"parts", std::move(parts)},
                   {"measured", sample.measured}});
  }
  return base::to_text(all);
}

std::vector<catalog::Sample> samples_of(const std::string& text) {
  std::vector<catalog::Sample> samples;
  for (const Json& json : parse(text)) {
    catalog::Sample& sample = samples.emplace_back(catalog::Sample{.signature = signature_of(json.at("signature")),
                                                                   .at = json.at("at"),
                                                                   .lane = json.at("lane"),
                                                                   .quantity = json.at("quantity"),
                                                                   .measured = json.at("measured")});
    for (const Json& part : json.at("parts")) sample.parts.push_back({part.at("name"), part.at("value")});
  }
  return samples;
}

std::string start_text(const RememberedStart& start) {
  Json settings = Json::array();
  for (const auto& [key, value] : start.start.settings) settings.push_back({{"key", key}, {"value", value}});
  return base::to_text(Json{{"ran", start.ran},
                            {"at", start.start.at},
                            {"rung", start.start.rung},
                            {"settings", std::move(settings)},
                            {"reasons", start.start.reasons}});
}

RememberedStart start_of(const std::string& text) {
  const Json json = parse(text);
  RememberedStart start{.start = {.at = json.at("at"), .rung = json.at("rung"), .reasons = json.at("reasons")},
                        .ran = json.at("ran")};
  for (const Json& setting : json.at("settings"))
    start.start.settings.emplace_back(setting.at("key").get<std::string>(), setting.at("value").get<std::string>());
  return start;
}

std::string report_text(const catalog::OomReport& report) { return base::to_text(catalog::to_json(report)); }

catalog::OomReport report_of(const std::string& text) { return catalog::oom_report_of(parse(text)); }

std::string measures_text(const RunMeasures& measures) {
  const runtime::Counters& counters = measures.counters;
  Json chips = Json::array();
  for (const ChipReport& chip : measures.chips) chips.push_back(json_of(chip));
  return base::to_text(Json{{"chips", std::move(chips)},
                            {"compiles", counters.compiles},
                            {"compile_seconds", counters.compile_seconds},
                            {"cache_hits", counters.cache_hits},
                            {"executions", counters.executions},
                            {"host_to_device", json_of(counters.host_to_device)},
                            {"device_to_host", json_of(counters.device_to_host)},
                            {"host_syncs", counters.host_syncs},
                            {"parts", json_of(measures.parts)}});
}

RunMeasures measures_of(const std::string& text) {
  const Json json = parse(text);
  RunMeasures measures{.chips = {},
                       .counters = {.compiles = {},
                                    .compile_seconds = json.at("compile_seconds"),
                                    .cache_hits = json.at("cache_hits"),
                                    .executions = json.at("executions"),
                                    .host_to_device = transfers_of(json.at("host_to_device")),
                                    .device_to_host = transfers_of(json.at("device_to_host")),
                                    .host_syncs = json.at("host_syncs")},
                       .parts = parts_of(json.at("parts"))};
  for (const auto& [cause, count] : json.at("compiles").items()) measures.counters.compiles[cause] = count;
  for (const Json& chip : json.at("chips")) measures.chips.push_back(chip_of(chip));
  return measures;
}

}  // namespace megacpp::launch
