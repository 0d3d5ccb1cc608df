// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/xla_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/output.h"
#include "megacpp/cli/text_table.h"
#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/machine/xla/pjrt/compile_report_fields.h"
#include "megacpp/program/memory/report.h"

namespace megacpp::cli {
namespace {

namespace plugins = runtime::plugins;
using memory::human_bytes;

/// The least time a step can take, by the chip's own rates. XLA counts the body of a loop once; what the loops add to
/// the products they are taken to add to all.
struct Roofline {
  double compute_seconds = 0;
  double memory_seconds = 0;
  double seconds() const { return std::max(compute_seconds, memory_seconds); }
};

std::optional<Roofline> roofline_of(const XlaCompilation& c) {
  if (!c.choice.tpu || !c.report.flops || !c.report.bytes_accessed) return std::nullopt;
  const hw::Chip device = hw::device_of(c.choice.tpu->chip);
  const std::optional<double> peak = device.peak("bf16");
  if (!peak) return std::nullopt;
  return Roofline{*c.report.flops * c.report.loops.factor / *peak,
                  *c.report.bytes_accessed * c.report.loops.factor / device.memory_bytes_per_second};
}

/// Part of the chip's memory, where both are known.
std::optional<double> share_of(const XlaCompilation& c) {
  const std::optional<int64_t> needed = c.report.needed_bytes();
  if (!needed || !c.report.memory_limit) return std::nullopt;
  return static_cast<double>(*needed) / static_cast<double>(*c.report.memory_limit);
}

// ---- Text ----

std::string ratio_text(double theirs, double ours) { return ours > 0 ? fmt::format("{:.3f}", theirs / ours) : "-"; }

void print_place(const XlaCompilation& c) {
  if (c.choice.tpu)
    print_out("target     {}  {}, {}\n", c.choice.flags.target, base::counted(c.choice.tpu->chips(), "chip"),
              base::counted(c.choice.tpu->devices(), "device"));
  print_out("plugin     {}\n", c.choice.plugin.string());
  if (!c.report.plugin.empty()) {
    std::string platform = c.report.platform;  // plugins say it in several lines
    std::ranges::replace(platform, '\n', ' ');
    print_out("           {}\n           {}\n", c.report.plugin, platform);
  }
  if (const std::string other = other_compiler(c); !other.empty()) print_out("rules      {}\n", other);
  if (!c.report.device_kind.empty())
    print_out("devices    {} x {}{}\n", c.report.devices, c.report.device_kind,
              c.report.memory_limit ? fmt::format(", {} bytes each", *c.report.memory_limit) : "");
  write_output(plugins::to_text(c.choice.xla_flags, plugins::kFlagLabel));
  print_out("module     {} bytes of text, written in {:.2f} s\n", c.text_bytes, c.emission_seconds);
  if (c.report.compile_seconds > 0) print_out("compile    {:.1f} s\n", c.report.compile_seconds);
}

void print_memory(const XlaCompilation& c) {
  if (!c.report.memory)
    return print_out("\nmemory of a chip: not known: {}\n", c.report.odd_memory.empty()
                                                                ? "the plugin does not say"
                                                                : "the plugin says " + c.report.odd_memory);
  const runtime::pjrt::CompiledMemory& m = *c.report.memory;
  TextTable table({"memory of a chip", ">bytes", ">", ">planned", ">XLA/planned"});
  const auto add = [&table](const char* name, int64_t bytes) {
    table.add({name, std::to_string(bytes), human_bytes(bytes), "", ""});
  };
  table.add({"argument", std::to_string(m.argument), human_bytes(m.argument), std::to_string(c.argument_bytes),
             ratio_text(static_cast<double>(m.argument), static_cast<double>(c.argument_bytes))});
  add("output", m.output);
  add("alias, of the output in arguments", m.alias);
  add("temp", m.temp);
  add("peak, gaps left out", m.peak);
  add("code", m.code);
  add("needed, code included", c.report.needed_bytes().value_or(0));
  write_output("\n" + table.to_text());
  if (const std::optional<double> share = share_of(c))
    print_out("{:.1f}% of a chip's {}: it {}\n", 100 * *share, human_bytes(*c.report.memory_limit),
              *share <= 1 ? "fits" : "does not fit");
}

void print_cost(const XlaCompilation& c) {
  TextTable table({"a chip's step", ">XLA", ">ours", ">XLA/ours"});
  const std::optional<double> flops = c.report.flops;
  const double all = flops.value_or(0) * c.report.loops.factor;
  const char* const at_least = c.report.loops.at_least ? ">=" : "";
  table.add({"FLOPs", flops ? fmt::format("{}{:.4e}", at_least, all) : "not said", fmt::format("{:.4e}", c.flops),
             flops ? at_least + ratio_text(all, c.flops) : "-"});
  const bool has_loops = c.report.loops.factor != 1;
  if (has_loops && flops) table.add({"  loops taken once", fmt::format("{:.4e}", *flops), "", ""});
  if (c.report.bytes_accessed)
    table.add({has_loops ? "bytes accessed, loops taken once" : "bytes accessed",
               fmt::format("{:.4e}", *c.report.bytes_accessed), "", ""});
  write_output("\n" + table.to_text());
  if (c.report.loops.at_least)
    print_out(">=: products in a loop {} count once, so XLA's FLOPs and the time are less than what runs\n",
              c.report.unread.empty() ? "whose length only a chip knows" : "of a program that was not read");
  if (const std::optional<Roofline> roofline = roofline_of(c))
    print_out("at least {:.2f} ms: {:.2f} ms of compute, {:.2f} ms of memory at the chip's own rates\n",
              roofline->seconds() * 1e3, roofline->compute_seconds * 1e3, roofline->memory_seconds * 1e3);
}

std::string size_or_unknown(const plugins::Bytes& bytes) { return bytes ? human_bytes(*bytes) : "not said"; }

void print_failure(const XlaCompilation& c) {
  if (c.out_of_memory)
    print_out("\nout of memory: {}; wanted {}, there {}, too much {}\n", plugins::oom_class_name(c.out_of_memory->cls),
              size_or_unknown(c.out_of_memory->used), size_or_unknown(c.out_of_memory->limit),
              size_or_unknown(c.out_of_memory->exceeded));
  else
    print_out("\nfailed: {} {}\n", base::code_name(c.failure->code()), base::code_title(c.failure->code()));
  print_out("planned arguments {} bytes ({}), our FLOPs {:.4e} per chip and step\n", c.argument_bytes,
            human_bytes(c.argument_bytes), c.flops);
}

// ---- JSON ----

Json comparison_json(const CollectiveComparison& row) {
  return {{"kind", row.kind},
          {"axes", row.axes},
          {"xla_calls", row.xla.calls},
          {"xla_bytes", row.xla.bytes},
          {"xla_at_least", row.xla_at_least},
          {"our_calls", row.ours.calls},
          {"our_bytes", row.ours.bytes},
          {"difference", row.difference()}};
}

Json failure_json(const XlaCompilation& c) {
  if (!c.failure) return {};
  Json json = {{"code", std::string(base::code_name(c.failure->code()))},
               {"title", std::string(base::code_title(c.failure->code()))},
               {"got", c.failure->problem().got}};
  json["out_of_memory"] = c.out_of_memory ? plugins::to_json(*c.out_of_memory) : Json();
  return json;
}

}  // namespace

void print_xla_report(const XlaCompilation& c) {
  print_place(c);
  if (c.failure) return print_failure(c);
  print_memory(c);
  print_cost(c);
}

void print_xla_collectives(const XlaCompilation& c) {
  if (!c.report.unread.empty()) return print_out("\nXLA's collectives: not read: {}\n", c.report.unread);
  if (c.collectives.empty()) return print_out("\nXLA's collectives: none, and none of ours.\n");
  print_out("\nCollectives of a step, XLA's beside ours: calls, and bytes one chip sends.\n");
  TextTable table({"kind", "axes", ">XLA calls", ">XLA bytes", ">our calls", ">our bytes", "differs"});
  CollectiveCount xla, ours;
  for (const CollectiveComparison& row : c.collectives) {
    table.add({row.kind, row.axes, fmt::format("{}{}", row.xla_at_least ? ">=" : "", row.xla.calls),
               human_bytes(row.xla.bytes), std::to_string(row.ours.calls), human_bytes(row.ours.bytes),
               row.difference()});
    xla.calls += row.xla.calls;
    xla.bytes += row.xla.bytes;
    ours.calls += row.ours.calls;
    ours.bytes += row.ours.bytes;
  }
  table.add({"all", "", std::to_string(xla.calls), human_bytes(xla.bytes), std::to_string(ours.calls),
             human_bytes(ours.bytes), ""});
  write_output(table.to_text());
}

Json xla_json(const XlaCompilation& c) {
  Json collectives = Json::array();
  for (const CollectiveComparison& row : c.collectives) collectives.push_back(comparison_json(row));
  const std::optional<double> share = share_of(c);
  const std::optional<Roofline> roofline = roofline_of(c);
  Json json = {{"target", c.choice.flags.target},
               {"plugin", c.choice.plugin.string()},
               {"plugin_identity", c.report.plugin},
               {"platform", c.report.platform},
               {"other_compiler", other_compiler(c)},
               {"device_kind", c.report.device_kind},
               {"devices", c.report.devices},
               {"flags", plugins::to_json(c.choice.xla_flags)},
               {"emission_seconds", c.emission_seconds},
               {"text_bytes", c.text_bytes},
               {"compile_seconds", c.report.compile_seconds},
               {"planned_argument_bytes", c.argument_bytes}};
  json["memory"] = base::record_json(c.report.memory);
  json["needed_bytes"] = base::record_json(c.report.needed_bytes());
  json["memory_limit_bytes"] = base::record_json(c.report.memory_limit);
  json["memory_share"] = base::record_json(share);
  json["fits"] = c.out_of_memory ? Json(false) : share ? Json(*share <= 1) : Json();
  json["flops"] = base::record_json(c.report.flops);
  json["loop_factor"] = c.report.loops.factor;
  json["loop_factor_at_least"] = c.report.loops.at_least;
  json["our_flops"] = c.flops;
  json["bytes_accessed"] = base::record_json(c.report.bytes_accessed);
  json["roofline_seconds"] = roofline ? Json(roofline->seconds()) : Json();
  json["roofline_compute_seconds"] = roofline ? Json(roofline->compute_seconds) : Json();
  json["roofline_memory_seconds"] = roofline ? Json(roofline->memory_seconds) : Json();
  json["collectives"] = std::move(collectives);
  json["instructions"] = base::record_json(c.report.collectives);
  json["odd_memory"] = c.report.odd_memory;
  json["unread"] = c.report.unread;
  json["failure"] = failure_json(c);
  return json;
}

}  // namespace megacpp::cli
