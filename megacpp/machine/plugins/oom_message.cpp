// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/oom_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "megacpp/core/base/record_to_json.h"

namespace megacpp::runtime::plugins {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// What follows the first `phrase`; nothing when it is not there.
std::optional<std::string_view> after(std::string_view text, std::string_view phrase) {
  const size_t at = text.find(phrase);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + phrase.size());
}

/// The size that follows the first `phrase`.
Bytes size_after(std::string_view text, std::string_view phrase) {
  const auto rest = after(text, phrase);
  return rest ? read_size(*rest) : std::nullopt;
}

std::string text_between(std::string_view text, std::string_view begin, std::string_view end) {
  const auto rest = after(text, begin);
  if (!rest) return "";
  const size_t stop = rest->find(end);
  return stop == std::string_view::npos ? "" : std::string(rest->substr(0, stop));
}

bool mentions(std::string_view text, std::string_view phrase) { return text.find(phrase) != std::string_view::npos; }

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

/// The largest allocations of a listing: "1. Size: 2.00G" with indented fields on TPUs, "Buffer 1:" on GPUs.
std::vector<OomAllocation> listed_allocations(const std::vector<std::string_view>& lines) {
  std::vector<OomAllocation> list;
  for (const std::string_view line : lines) {
    const size_t size_at = line.find("Size: ");
    const bool starts = size_at == 0 || (size_at != std::string_view::npos && line.substr(0, size_at).ends_with(". "));
    if (starts) {
      list.push_back({.bytes = read_size(line.substr(size_at + 6))});
      continue;
    }
    if (list.empty()) continue;
    OomAllocation& last = list.back();
    const auto rest_of = [&](std::string_view key) -> std::string {
      return line.starts_with(key) ? std::string(trimmed(line.substr(key.size()))) : "";
    };
    if (line.starts_with("Operator:")) {
      last.op_name = text_between(line, "op_name=\"", "\"");
      last.source = text_between(line, "source_file=\"", "\"");
      if (const auto number = after(line, "source_line="); number && !last.source.empty())
        last.source += ":" + std::string(number->substr(0, number->find_first_not_of("0123456789")));
    } else if (line.starts_with("Unpadded size:")) {
      last.unpadded = read_size(line.substr(14));
    } else if (line.starts_with("Shape:")) {
      last.shape = rest_of("Shape:");
    } else if (line.starts_with("Entry Parameter Subshape:")) {
      last.shape = rest_of("Entry Parameter Subshape:");
      last.kind = "argument";
    } else if (line.starts_with("XLA label:") || line.starts_with("XLA Label:")) {
      last.label = std::string(trimmed(line.substr(10)));
    } else if (line.starts_with("Allocation type:")) {
      last.kind = rest_of("Allocation type:");
    }
  }
  return list;
}

/// The size in a line that starts with `key`, e.g. "reserved          1.25G" or "parameter allocation:    6.00MiB".
void take(std::string_view line, std::string_view key, Bytes& bytes) {
  if (!bytes && line.starts_with(key)) bytes = read_size(trimmed(line.substr(key.size())));
}

OomSplit read_split(const std::vector<std::string_view>& lines) {
  OomSplit split;
  for (const std::string_view line : lines) {
    take(line, "reserved(Infeed/Outfeed/Continuations) ", split.reserved);
    take(line, "reserved ", split.reserved);
    take(line, "program ", split.program);
    take(line, "arguments ", split.arguments);
    take(line, "Output size ", split.output);
    take(line, "output ", split.output);
    if (line.starts_with("HLO temp ") && !split.temp) {
      split.temp = read_size(trimmed(line.substr(9)));
      split.temp_unpadded = size_after(line, "Unpadded (");
      split.temp_padded = size_after(line, " Padded (");
      split.fragmentation = size_after(line, "fragmentation (");
    }
    take(line, "parameter allocation:", split.arguments);
    take(line, "maybe_live_out allocation:", split.output);
    take(line, "preallocated temp allocation:", split.temp);
    take(line, "total fragmentation:", split.fragmentation);
  }
  return split;
}

/// "the total memory required for HLO temporaries (62.12G) exceeds available HBM (31.24G)".
bool read_short_compile(std::string_view text, OomMessage& message) {
  const auto required = after(text, "memory required for HLO temporaries (");
  if (!required) return false;
  message.cls = OomClass::compile;
  message.memory_space = "hbm";
  message.used = message.split.temp = read_size(*required);
  message.limit = size_after(*required, "exceeds available HBM (");
  if (const auto module = after(text, "HLO module: ")) {
    const std::string_view name = module->substr(0, module->find_first_of(" \n"));
    message.program = name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
  }
  return true;
}

/// "Ran out of memory in memory space hbm. Used 63.80G of 30.75G hbm. Exceeded hbm capacity by 33.05G."
bool read_long_compile(std::string_view text, OomMessage& message) {
  const auto space = after(text, "Ran out of memory in memory space ");
  if (!space) return false;
  message.cls = OomClass::compile;
  message.memory_space = space->substr(0, space->find_first_of(". \n"));
  if (const auto used = after(*space, "Used ")) {
    message.used = read_size(*used);
    message.limit = size_after(*used, " of ");
  }
  message.exceeded = size_after(*space, "capacity by ");
  return true;
}

/// "TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 174.10G, exceeding available bytes: 95.74G".
bool read_two_core_compile(std::string_view text, OomMessage& message) {
  const Bytes tensor_core = size_after(text, "TensorCore Hbm usage: "),
              sparse_core = size_after(text, "SparseCore Hbm usage ");
  if (!tensor_core || !sparse_core) return false;
  message.cls = OomClass::compile;
  message.memory_space = "hbm";
  message.used = *tensor_core + *sparse_core;
  message.limit = size_after(text, "exceeding available bytes: ");
  return true;
}

/// "Allocation (size=...) would exceed memory (size=...) :: #allocation7 [shape = '...', space=hbm, ... tag = '...']".
bool read_single_allocation(std::string_view text, OomMessage& message) {
  const auto size = after(text, "Allocation (size=");
  if (!size || !mentions(text, "would exceed memory (size=")) return false;
  message.cls = OomClass::compile;
  message.used = read_size(*size);
  message.limit = size_after(text, "would exceed memory (size=");
  const std::string space = text_between(text, "space=", ",");
  message.memory_space = space.substr(0, space.find(']'));
  message.largest.push_back({.bytes = message.used,
                             .unpadded = {},
                             .shape = text_between(text, "shape = '", "'"),
                             .label = text_between(text, "tag = '", "'")});
  return true;
}

/// "Attempting to allocate 8.00M. That was not possible. There are 6.43M free.; (0x0x1_HBM0)", or "reserve 29.49G at
/// the bottom of memory": a program's arena where the message or what was being done says so, otherwise a buffer.
bool read_tpu_allocation(std::string_view text, OomMessage& message) {
  const bool reserves = mentions(text, "Attempting to reserve ");
  const auto wanted = after(text, reserves ? "Attempting to reserve " : "Attempting to allocate ");
  if (!wanted || !mentions(*wanted, "That was not possible")) return false;
  if (reserves || mentions(text, "Error loading program") || mentions(text, "RuntimeProgramAllocationFailure"))
    message.cls = OomClass::load;
  else
    message.cls = OomClass::runtime;
  message.memory_space = "hbm";
  message.used = read_size(*wanted);
  if (const auto there = after(*wanted, "There are ")) {
    message.limit = read_size(*there);
    // A program needs one run of bytes: what is reservable, not what is free.
    if (const auto reserved = after(*there, "reserved, and ")) message.limit = read_size(*reserved);
  }
  message.program = text_between(text, "Error loading program '", "'");
  return true;
}

/// What GPUs and the host say: "Out of memory while trying to allocate 6291456 bytes", "Out of memory allocating N
/// bytes", "Failed to allocate request for 176.00MiB (184549376B) on device ordinal 0".
bool read_plain_allocation(std::string_view text, OomMessage& message) {
  for (const std::string_view phrase :
       {"ut of memory while trying to allocate ", "ut of memory allocating ", "Failed to allocate request for ",
        "ran out of memory trying to allocate ", "Failed to allocate "}) {
    const auto rest = after(text, phrase);
    if (!rest) continue;
    message.used = read_size(*rest);
    // A number in round brackets behind it is the exact one.
    const std::string_view sentence = rest->substr(0, rest->find_first_of(";\n"));
    if (const Bytes exact = size_after(sentence.substr(0, 24), "(")) message.used = exact;
    if (const Bytes limit = size_after(*rest, "Memory limit: ")) message.limit = limit;
    return true;
  }
  return false;
}

/// Memory of the machine rather than of a device, in the words allocators have for it.
bool is_host_memory(std::string_view text) {
  for (const std::string_view word : {"host memory", "pinned_host", "host_bfc", "host allocator", "Host memory"})
    if (mentions(text, word)) return true;
  return false;
}

std::string device_in(std::string_view text) {
  if (const size_t end = text.find("_HBM"); end != std::string_view::npos) {
    const size_t begin = text.find_last_of("( ;", end) + 1;
    const size_t stop = text.find_first_not_of("0123456789", end + 4);
    return std::string(text.substr(begin, stop - begin));
  }
  if (const std::string allocator = text_between(text, "Allocator (", ")"); !allocator.empty()) return allocator;
  for (const std::string_view phrase : {"device ordinal ", "partition "}) {
    const auto rest = after(text, phrase);
    if (!rest) continue;
    const size_t digits = std::min(rest->find_first_not_of("0123456789"), rest->size());
    if (digits > 0) return std::string(phrase) + std::string(rest->substr(0, digits));
  }
  return "";
}

std::string size_text(const Bytes& bytes) {
  if (!bytes) return "?";
  const double value = static_cast<double>(*bytes);
  if (value >= 1 << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (value >= 1 << 20) return fmt::format("{:.2f} MiB", value / (1 << 20));
  return fmt::format("{} bytes", *bytes);
}

}  // namespace

Bytes read_size(std::string_view text) {
  text = trimmed(text);
  std::string number;
  size_t at = 0;
  for (; at < text.size() && (std::isdigit(static_cast<unsigned char>(text[at])) || text[at] == '.' || text[at] == ',');
       ++at) {
    if (text[at] != ',') number += text[at];
  }
  // A full stop or comma behind the number ends the sentence.
  while (!number.empty() && number.back() == '.') number.pop_back();
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  constexpr std::string_view kUnits = "KMGTP";
  const size_t unit = at < text.size() ? kUnits.find(text[at]) : std::string_view::npos;
  if (unit != std::string_view::npos) value = std::ldexp(value, 10 * (static_cast<int>(unit) + 1));
  if (!(value < 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(std::llround(value));
}

OomMessage read_oom_message(std::string_view text, const OomContext& context) {
  OomMessage message = {.cls = context.during, .text = std::string(text)};
  const std::vector<std::string_view> lines = lines_of(text);
  message.split = read_split(lines);
  message.largest = listed_allocations(lines);
  for (const auto read : {read_short_compile, read_long_compile, read_two_core_compile, read_single_allocation,
                          read_tpu_allocation, read_plain_allocation}) {
    if (read(text, message)) break;
  }
  // A compile that fails on the CPU plugin fails for want of the host's memory, as everything there does.
  if (context.platform == PluginKind::cpu || is_host_memory(text)) message.cls = OomClass::host;
  if (!message.exceeded && message.used && message.limit && *message.used > *message.limit)
    message.exceeded = *message.used - *message.limit;
  message.device = device_in(text);
  return message;
}

base::Problem problem_of(const OomMessage& message, const std::string& where) {
  std::string got = fmt::format("{}: ", oom_class_name(message.cls));
  if (message.used) {
    got += fmt::format("{} wanted", size_text(message.used));
    if (message.limit) got += fmt::format(", {} there", size_text(message.limit));
    if (message.exceeded) got += fmt::format(", {} too much", size_text(message.exceeded));
    if (!message.device.empty()) got += " on " + message.device;
    constexpr size_t kShown = 3;
    for (size_t i = 0; i < std::min(kShown, message.largest.size()); ++i) {
      const OomAllocation& one = message.largest[i];
      got += fmt::format("; {} {} {}", size_text(one.bytes), one.shape, one.op_name.empty() ? one.label : one.op_name);
    }
  } else {
    got += message.text;
  }
  return {.where = where,
          .got = got,
          .wanted = message.cls == OomClass::host ? "what the host has" : "what a chip has",
          .next = message.cls == OomClass::load ? "free the device, or reduce what stays on it"
                  : message.cls == OomClass::host
                      ? "use more hosts, or a machine with more memory"
                      : "shard more, recompute (train.recompute), or reduce train.batch with more train.micro_steps"};
}

memory::OutOfMemory out_of_memory(const OomMessage& message, const std::string& where) {
  memory::OomFacts facts{.cls = message.cls,
                         .phase = where,
                         .place = message.device,
                         .wanted = message.used,
                         .limit = message.limit,
                         .text = message.text};
  for (const OomAllocation& one : message.largest)
    facts.largest.push_back({.bytes = one.bytes.value_or(0),
                             .what = one.shape.empty() ? one.label : one.label + " " + one.shape,
                             .scope = one.op_name});
  return {code_of(message.cls), problem_of(message, where), std::move(facts)};
}

template <typename Visit, base::Is<OomAllocation> Self>
void visit_fields(const Visit& visit, Self& one) {
  visit("bytes", one.bytes, "as laid out on the device");
  visit("unpadded", one.unpadded, "what the elements take");
  visit("op_name", one.op_name);
  visit("shape", one.shape);
  visit("source", one.source);
  visit("label", one.label);
  visit("kind", one.kind);
}

template <typename Visit, base::Is<OomSplit> Self>
void visit_fields(const Visit& visit, Self& split) {
  visit("reserved", split.reserved, "bytes");
  visit("program", split.program);
  visit("arguments", split.arguments);
  visit("output", split.output);
  visit("temp", split.temp);
  visit("temp_unpadded", split.temp_unpadded);
  visit("temp_padded", split.temp_padded);
  visit("fragmentation", split.fragmentation);
}

template <typename Visit, base::Is<OomMessage> Self>
void visit_fields(const Visit& visit, Self& message) {
  visit("class", oom_class_name(message.cls));
  visit("code", base::code_name(code_of(message.cls)));
  visit("memory_space", message.memory_space);
  visit("used", message.used, "bytes needed in all, or asked for");
  visit("limit", message.limit);
  visit("exceeded", message.exceeded);
  visit("device", message.device);
  visit("program", message.program);
  visit("split", message.split);
  visit("largest", message.largest);
  visit("text", message.text);
}

base::Json to_json(const OomMessage& message) { return base::record_json(message); }

}  // namespace megacpp::runtime::plugins
