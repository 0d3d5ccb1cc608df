// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hw/chip_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace megacpp::hw {
namespace {

using schema::any;
using schema::between;
using schema::Kind;
using schema::one_of;
using schema::Range;

// Far above any chip, so that what is beyond them is a slip of the pen.
Range count() { return between(1, 1e6); }
Range memory() { return between(1, 1e15); }
// Also below: what is divided by them stays finite.
Range rate() { return between(1, 1e21); }         // a second
Range latency() { return between(1e-12, 1000); }  // seconds
Range gaps() { return between(1, 100); }
Range ratio() { return between(0.01, 100); }
Range share() { return between(0.001, 1); }  // of a rate

template <auto field>
bool store_bytes(Chip& chip, const FileValue& value) {
  chip.*field = value.bytes.bytes;
  return true;
}
template <auto field>
bool store_number(Chip& chip, const FileValue& value) {
  chip.*field = value.number;
  return true;
}
template <auto field>
bool store_text(Chip& chip, const FileValue& value) {
  chip.*field = value.text;
  return true;
}
template <auto field>
bool store_rule(Chip& chip, const FileValue& value) {
  chip.slices.*field = value.integer;
  return true;
}
template <auto rows, int bits>
bool store_rows(Chip& chip, const FileValue& value) {
  (chip.tiling.*rows)[bits] = value.integer;
  return true;
}

bool store_kind(Chip& chip, const FileValue& value) {
  chip.kind = value.text == "tpu" ? ChipKind::tpu : ChipKind::gpu;
  return true;
}
bool store_shape(Chip& chip, const FileValue& value) {
  chip.slices.shape = value.text == "torus" ? SliceShape::torus : SliceShape::nodes;
  return true;
}
bool store_host(Chip& chip, const FileValue& value) {
  const std::optional<Sizes> sizes = read_sizes(value.text);
  if (sizes) chip.slices.host = *sizes;
  return sizes.has_value();
}
bool store_valid(Chip& chip, const FileValue& value) {
  chip.slices.valid.clear();
  for (const std::string& text : value.list) {
    const std::optional<Sizes> sizes = read_sizes(text);
    if (!sizes) return false;
    chip.slices.valid.push_back(*sizes);
  }
  return true;
}
/// Blanks around a name would keep it from ever being met.
bool store_device_names(Chip& chip, const FileValue& value) {
  constexpr std::string_view kBlank = " \t\r\n";
  for (const std::string& name : value.list)
    if (kBlank.find(name.front()) != std::string_view::npos || kBlank.find(name.back()) != std::string_view::npos)
      return false;
  chip.device_names = value.list;
  return true;
}
bool store_scope(Link& link, const FileValue& value) {
  link.scope = value.text == "slice" ? LinkScope::slice : value.text == "node" ? LinkScope::node : LinkScope::cluster;
  return true;
}

using ChipKey = FileKey<Chip>;
using StoreInChip = bool (*)(Chip&, const FileValue&);

ChipKey fact(schema::KeySpec key, StoreInChip store) { return {std::move(key), store, true}; }

template <auto rows>
void add_rows(std::vector<ChipKey>& keys, const std::string& section, const std::string& doc) {
  keys.push_back(fact({section + ".8", Kind::integer, count(), doc + " of 8 bits."}, store_rows<rows, 8>));
  keys.push_back(fact({section + ".16", Kind::integer, count(), doc + " of 16 bits."}, store_rows<rows, 16>));
  keys.push_back(fact({section + ".32", Kind::integer, count(), doc + " of 32 bits."}, store_rows<rows, 32>));
}

constexpr const char* kRates[] = {"bf16", "f16", "tf32", "f32", "f8", "int8"};

template <size_t rate>
bool store_rate(Chip& chip, const FileValue& value) {
  chip.peak_flops[kRates[rate]] = value.number;
  return true;
}
template <size_t... rates>
void add_rates(std::vector<ChipKey>& keys, std::index_sequence<rates...>) {
  (keys.push_back(fact({std::string("compute.") + kRates[rates], Kind::number, rate(),
                        std::string("Dense operations a second in ") + kRates[rates] + "."},
                       store_rate<rates>)),
   ...);
}

// Backends whose kernels may have rates of their own in a chip file; "" is all others.
constexpr const char* kLanes[] = {"", "cuda"};

template <size_t lane>
Reached& reached_in(Chip& chip) {
  if constexpr (lane == 0) {
    return chip.reached;
  } else {
    return chip.reached_by[kLanes[lane]];
  }
}
template <size_t lane, auto field>
bool store_reached(Chip& chip, const FileValue& value) {
  reached_in<lane>(chip).*field = value.number;
  return true;
}
constexpr int64_t kHeadWidths[] = {64, 128, 256};

template <size_t lane, auto field, size_t width>
bool store_by_width(Chip& chip, const FileValue& value) {
  (reached_in<lane>(chip).*field)[kHeadWidths[width]] = value.number;
  return true;
}
template <size_t lane, auto field, size_t... widths>
void add_by_width(std::vector<ChipKey>& keys, const schema::KeySpec& key, std::index_sequence<widths...>) {
  (keys.push_back(fact({key.path + "." + std::to_string(kHeadWidths[widths]), key.kind, key.range,
                        key.doc + " Heads " + std::to_string(kHeadWidths[widths]) + " wide."},
                       store_by_width<lane, field, widths>)),
   ...);
}
template <size_t lane>
void add_reached_in(std::vector<ChipKey>& keys) {
  constexpr auto each = std::make_index_sequence<std::size(kHeadWidths)>();
  const std::string section = lane == 0 ? "reached." : std::string("reached.") + kLanes[lane] + ".";
  const std::string whose = lane == 0 ? "" : std::string(" Kernels of backend ") + kLanes[lane] + ".";
  const auto spec = [&](const char* word, const Range& range, const char* doc) {
    return schema::KeySpec{section + word, Kind::number, range, doc + whose};
  };
  const auto add = [&](const char* word, const Range& range, const char* doc, StoreInChip store) {
    keys.push_back(fact(spec(word, range, doc), store));
  };
  add("products", share(), "Share of the peak that large products reach for as long as a step takes.",
      store_reached<lane, &Reached::products>);
  add_by_width<lane, &Reached::attention>(keys, spec("attention", share(), "Share of the peak that attention reaches."),
                                          each);
  add_by_width<lane, &Reached::attention_grad>(
      keys, spec("attention_grad", share(), "Share of the peak that its gradient reaches."), each);
  add("ssd", share(), "Share of the peak that state-space products and their gradients reach.",
      store_reached<lane, &Reached::ssd>);
  add("traffic", share(), "Share of the memory's rate that all other work of a step reaches.",
      store_reached<lane, &Reached::traffic>);
  add("launch", latency(),
      "Seconds that an op of a plan takes beside its work: launches and gaps of all kernels made of it.",
      store_reached<lane, &Reached::launch>);
  add("beside_collectives", share(), "Share of its rate that work keeps while a collective runs beside it.",
      store_reached<lane, &Reached::beside_collectives>);
  add("step_least", ratio(),
      "Whole steps of one chip in bf16 as measured over as predicted with these rates: the least seen.",
      store_reached<lane, &Reached::step_least>);
  add("step_most", ratio(), "The most seen.", store_reached<lane, &Reached::step_most>);
}
template <size_t... lanes>
void add_reached(std::vector<ChipKey>& keys, std::index_sequence<lanes...>) {
  (add_reached_in<lanes>(keys), ...);
}

constexpr const char* kPrecisions[] = {"f32", "bf16"};  // of training

template <auto field, size_t precision>
bool store_selective(Chip& chip, const FileValue& value) {
  chip.selective_recompute[kPrecisions[precision]].*field = value.number;
  return true;
}
template <auto field, size_t... precisions>
void add_selective(std::vector<ChipKey>& keys, const schema::KeySpec& key, std::index_sequence<precisions...>) {
  (keys.push_back(fact({key.path + "." + kPrecisions[precisions], key.kind, key.range,
                        key.doc + " Training in " + kPrecisions[precisions] + "."},
                       store_selective<field, precisions>)),
   ...);
}
void add_recompute(std::vector<ChipKey>& keys) {
  constexpr auto each = std::make_index_sequence<std::size(kPrecisions)>();
  add_selective<&SelectiveRecompute::speed>(
      keys,
      {"recompute.selective_speed", Kind::number, ratio(),
       "Measured speed of a step that XLA compiled with dense feed-forwards at selective recompute, over none."},
      each);
  add_selective<&SelectiveRecompute::memory>(
      keys, {"recompute.selective_memory", Kind::number, ratio(), "Its peak memory over that of none."}, each);
}

void add_names(std::vector<ChipKey>& keys) {
  const auto add = [&keys](schema::KeySpec key, StoreInChip store) { keys.push_back({std::move(key), store}); };
  add({"title", Kind::text, any(), "What reports call it."}, store_text<&Chip::title>);
  add({"kind", Kind::text, one_of("tpu", "gpu"), "The family of accelerators it is of."}, store_kind);
  add({"aliases", Kind::list, any(), "Other names it is found by; a chip that extends it does not have them."},
      [](Chip& chip, const FileValue& value) {
        chip.aliases = value.list;
        return true;
      });
  add({"device_names", Kind::list, any(),
       "What its devices call themselves, as their driver spells it: runs on them are planned for this chip. A chip "
       "that extends it does not have them."},
      store_device_names);
  add({"plugin_name", Kind::text, any(), "The name PJRT knows it by, where that is not the file's."},
      store_text<&Chip::plugin_name>);
}

void add_memory(std::vector<ChipKey>& keys) {
  const auto bytes = [&keys](const char* path, const char* doc, StoreInChip store) {
    keys.push_back(fact({path, Kind::bytes, memory(), doc}, store));
  };
  bytes("memory.nominal", "Memory of a chip.", store_bytes<&Chip::nominal_bytes>);
  bytes(
      "memory.usable",
      "What a program may use of it: the limit of a plan. XLA's client on a GPU takes nine tenths of it, which limit a "
      "plan there.",
      store_bytes<&Chip::usable_bytes>);
  bytes("memory.reserved", "What the system holds back.", store_bytes<&Chip::reserved_bytes>);
  bytes("memory.alignment", "An allocation is rounded up to a multiple of it.", store_bytes<&Chip::alignment>);
  bytes("memory.code_least", "The least a compiled training step takes of the same memory.",
        store_bytes<&Chip::code_bytes_least>);
  bytes("memory.code_most", "The most it takes.", store_bytes<&Chip::code_bytes_most>);
  keys.push_back(fact({"memory.bandwidth", Kind::number, rate(), "Bytes a second."},
                      store_number<&Chip::memory_bytes_per_second>));
  keys.push_back(
      fact({"memory.gaps_most", Kind::number, gaps(), "The most that XLA reserves for a step, over its planned peak."},
           store_number<&Chip::gaps_most>));
  keys.push_back(fact({"memory.loops_gaps_most", Kind::number, gaps(),
                       "The same on a GPU with its blocks in loops, where memory.gaps_most is of unrolled ones."},
                      store_number<&Chip::loops_gaps_most>));
  keys.push_back(fact({"memory.gaps_least", Kind::number, share(),
                       "The least that XLA reserves for a step that no rule is known for, over its planned peak."},
                      store_number<&Chip::gaps_least>));
  const auto reserved = [&keys](const char* path, const char* doc, StoreInChip store) {
    keys.push_back(fact({path, Kind::number, ratio(), doc}, store));
  };
  keys.push_back(fact({"memory.reserved_per_alive", Kind::number, gaps(),
                       "Bytes that XLA reserves for a step in loops over blocks, for one that is alive at once."},
                      store_number<&Chip::reserved_per_alive>));
  reserved("memory.alive_blocks",
           "Blocks whose values are alive in the backward loop of such a step, beside what all blocks keep for it.",
           store_number<&Chip::alive_blocks>);
  bytes("memory.code_base", "Code of such a step beside its blocks.", store_bytes<&Chip::code_bytes_base>);
  bytes("memory.code_per_block", "Code of every block that such a step has text of.",
        store_bytes<&Chip::code_bytes_per_block>);
  reserved("memory.reserved_off_most", "How far off what is expected by these four may be, as a part of it.",
           store_number<&Chip::reserved_off_most>);
  keys.push_back(
      fact({"memory.unrolled_per_alive", Kind::number, gaps(), "As memory.reserved_per_alive, with blocks unrolled."},
           store_number<&Chip::unrolled_per_alive>));
  bytes("memory.unrolled_code_per_block", "As memory.code_per_block, with blocks unrolled.",
        store_bytes<&Chip::unrolled_code_per_block>);
  reserved("memory.unrolled_off_most", "As memory.reserved_off_most, with blocks unrolled.",
           store_number<&Chip::unrolled_off_most>);
  keys.push_back(fact({"memory.compiler", Kind::text, any(),
                       "Whose code, gaps and reserved bytes these are: the build that the compiler's platform names. "
                       "Reports of another one say so."},
                      store_text<&Chip::compiler>));
}

void add_slices(std::vector<ChipKey>& keys) {
  keys.push_back({{"slices.shape", Kind::text, one_of("torus", "nodes"),
                   "Neighbours in two or three dimensions, or a switch in every node."},
                  store_shape});
  keys.push_back(fact(
      {"slices.valid", Kind::list, any(), "Slices it comes in, chips along each dimension: [2x2, 4x8], numbers and x."},
      store_valid));
  keys.push_back(fact({"slices.host", Kind::text, any(),
                       "Chips of one host, with shape nodes of a node, along each dimension: 2x2 or 8, numbers and x."},
                      store_host));
  keys.push_back(fact({"slices.block", Kind::integer, count(), "Any slice of whole cubes of this side is valid too."},
                      store_rule<&SliceRules::block>));
  keys.push_back(fact({"slices.largest", Kind::integer, count(), "Chips of the largest slice of such cubes."},
                      store_rule<&SliceRules::largest>));
  keys.push_back(
      fact({"slices.ring_multiple", Kind::integer, count(), "A dimension of a multiple of this closes to a ring."},
           store_rule<&SliceRules::ring_multiple>));
  keys.push_back({{"slices.rings_need_all", Kind::flag, any(), "Only where all dimensions are such multiples."},
                  [](Chip& chip, const FileValue& value) {
                    chip.slices.rings_need_all = value.flag;
                    return true;
                  }});
}

std::vector<ChipKey> make_chip_keys() {
  std::vector<ChipKey> keys;
  add_names(keys);
  add_memory(keys);
  add_rates(keys, std::make_index_sequence<std::size(kRates)>());
  keys.push_back(fact(
      {"compute.devices", Kind::integer, count(), "Devices a chip shows itself as; all numbers are of the whole chip."},
      [](Chip& chip, const FileValue& value) {
        chip.devices = value.integer;
        return true;
      }));
  keys.push_back(fact({"tiles.lanes", Kind::integer, count(), "The minor dimension is rounded up to a multiple of it."},
                      [](Chip& chip, const FileValue& value) {
                        chip.tiling.lanes = value.integer;
                        return true;
                      }));
  add_rows<&Tiling::rows>(keys, "tiles.rows", "The second-minor dimension is rounded to it, for elements");
  add_rows<&Tiling::tall_rows>(keys, "tiles.tall_rows", "A taller tile, taken where it pads no more, for elements");
  add_reached(keys, std::make_index_sequence<std::size(kLanes)>());
  add_recompute(keys);
  add_slices(keys);
  return keys;
}

std::vector<FileKey<Link>> make_link_keys() {
  return {{{"name", Kind::text, any(), "Links of chips that extend each other are matched by it."},
           [](Link& link, const FileValue& value) {
             link.name = value.text;
             return true;
           }},
          {{"scope", Kind::text, one_of("slice", "node", "cluster"), "What it reaches."}, store_scope},
          {{"bytes_per_second", Kind::number, rate(), "What a chip sends in one direction, over all its ports."},
           [](Link& link, const FileValue& value) {
             link.bytes_per_second = value.number;
             return true;
           },
           true},
          {{"ports", Kind::integer, count(), "Of a chip; a torus has two a dimension."},
           [](Link& link, const FileValue& value) {
             link.ports = value.integer;
             return true;
           },
           true},
          {{"latency", Kind::number, latency(), "Seconds, to the next chip."},
           [](Link& link, const FileValue& value) {
             link.latency = value.number;
             return true;
           },
           true}};
}

}  // namespace

schema::Member FileValue::member(Kind kind) {
  switch (kind) {
    case Kind::integer:
      return &integer;
    case Kind::number:
      return &number;
    case Kind::flag:
      return &flag;
    case Kind::text:
      return &text;
    case Kind::list:
      return &list;
    case Kind::bytes:
      break;
  }
  return &bytes;
}

std::span<const FileKey<Chip>> chip_keys() {
  static const std::vector<ChipKey> keys = make_chip_keys();
  return keys;
}

std::span<const FileKey<Link>> link_keys() {
  static const std::vector<FileKey<Link>> keys = make_link_keys();
  return keys;
}

const FileKey<Chip>* find_chip_key(std::string_view path) {
  const auto keys = chip_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const ChipKey& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

std::vector<std::string> words_of(std::string_view section) {
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  std::vector<std::string> words;
  for (const ChipKey& key : chip_keys()) {
    if (!key.path.starts_with(prefix)) continue;
    const size_t end = key.path.find('.', prefix.size());
    std::string word = key.path.substr(prefix.size(), end == std::string::npos ? end : end - prefix.size());
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

std::string key_table() {
  std::string table = "| key | kind | needs a source | range | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const ChipKey& key : chip_keys()) table += schema::table_row(key, key.is_fact ? "yes" : "");
  for (const FileKey<Link>& key : link_keys()) {
    schema::KeySpec spec = key;
    spec.path = "links[]." + spec.path;
    table += schema::table_row(spec, key.is_fact ? "yes" : "");
  }
  return table;
}

}  // namespace megacpp::hw
