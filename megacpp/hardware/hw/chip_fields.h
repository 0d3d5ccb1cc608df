// SPDX-License-Identifier: Apache-2.0
// The members of a chip (base/record.h) as its file gives them: name, what it may be, what it means. Reading, checking,
// suggestions and the table in docs/hardware.md come from these lines alone. For .cpp files.
#pragma once

#include <string>
#include <vector>

#include "megacpp/core/base/record.h"
#include "megacpp/core/schema/range.h"
#include "megacpp/hardware/hw/chip.h"

namespace megacpp::hw {

// What is said of a member beside its range and its documentation.
inline constexpr struct InBytes {
} kBytes;  // an integer that is written as 16GiB
inline constexpr struct Sourced {
} kSourced;  // a text that needs a source, as all numbers do
/// Of a map: its keys, each a member of its own; {} in the documentation stands for it.
struct Names {
  std::vector<std::string> names;
};
/// Of a map of records: the member of each that is meant.
template <auto field>
struct Only {};

constexpr auto words_of(ChipKind /*kind*/) {
  return std::to_array<base::Word<ChipKind>>(
      {{ChipKind::tpu, "tpu"}, {ChipKind::gpu, "gpu"}, {ChipKind::host, "host"}});
}
constexpr auto words_of(LinkScope /*scope*/) {
  return std::to_array<base::Word<LinkScope>>(
      {{LinkScope::slice, "slice"}, {LinkScope::node, "node"}, {LinkScope::cluster, "cluster"}});
}
constexpr auto words_of(SliceShape /*shape*/) {
  return std::to_array<base::Word<SliceShape>>({{SliceShape::torus, "torus"}, {SliceShape::nodes, "nodes"}});
}

// Far above any chip, so that what is beyond them is a slip of the pen.
inline schema::Range count() { return schema::between(1, 1e6); }
inline schema::Range memory() { return schema::between(1, 1e15); }
// Also below: what is divided by them stays finite.
inline schema::Range rate() { return schema::between(1, 1e21); }         // a second
inline schema::Range latency() { return schema::between(1e-12, 1000); }  // seconds
inline schema::Range gaps() { return schema::between(1, 100); }
inline schema::Range ratio() { return schema::between(0.01, 100); }
inline schema::Range share() { return schema::between(0.001, 1); }  // of a rate

template <typename Visit, base::Is<Reached> Self>
void visit_fields(const Visit& visit, Self& reached) {
  const Names widths{{"64", "128", "256"}};
  visit("products", reached.products, share(),
        "Share of the peak that large products reach for as long as a step takes.");
  visit("attention", reached.attention, widths, share(), "Share of the peak that attention reaches. Heads {} wide.");
  visit("attention_grad", reached.attention_grad, widths, share(),
        "Share of the peak that its gradient reaches. Heads {} wide.");
  visit("ssd", reached.ssd, share(), "Share of the peak that state-space products and their gradients reach.");
  visit("traffic", reached.traffic, share(), "Share of the memory's rate that all other work of a step reaches.");
  visit("launch", reached.launch, latency(),
        "Seconds that an op of a plan takes beside its work: launches and gaps of all kernels made of it.");
  visit("beside_collectives", reached.beside_collectives, share(),
        "Share of its rate that work keeps while a collective runs beside it.");
  visit("step_least", reached.step_least, ratio(),
        "Whole steps of one chip in bf16 as measured over as predicted with these rates: the least seen.");
  visit("step_most", reached.step_most, ratio(), "The most seen.");
}

template <typename Visit, base::Is<CompiledByXla> Self>
void visit_fields(const Visit& visit, Self& xla) {
  visit("code_least", xla.code_least, kBytes, memory(),
        "The least that a compiled training step takes of the chip's memory.");
  visit("code_most", xla.code_most, kBytes, memory(), "The most it takes.");
  visit("gaps_least", xla.gaps_least, share(), "The least that XLA reserves for a step, over its planned peak.");
  visit("gaps_most", xla.gaps_most, gaps(), "The most it reserves.");
  visit("loops_gaps_most", xla.loops_gaps_most, gaps(),
        "The same on a GPU with its blocks in loops, where xla.gaps_most is of unrolled ones.");
  visit("off_most", xla.off_most, ratio(),
        "How far off the rule for what XLA reserves on TPUs may be on this one, as a part of what it expects.");
  visit("unrolled_off_most", xla.unrolled_off_most, ratio(), "The same with blocks unrolled.");
  visit("compiler", xla.compiler, kSourced,
        "Whose numbers these are: the build that the compiler's platform names. Reports of another one say so.");
}

template <typename Visit, base::Is<Link> Self>
void visit_fields(const Visit& visit, Self& link) {
  visit("name", link.name, "Links of chips that extend each other are matched by it.");
  visit("scope", link.scope, "What it reaches.");
  visit("bytes_per_second", link.bytes_per_second, rate(), "What a chip sends in one direction, over all its ports.");
  visit("ports", link.ports, count(), "Of a chip; a torus has two a dimension.");
  visit("latency", link.latency, latency(), "Seconds, to the next chip.");
}

template <typename Visit, base::Is<Fact> Self>
void visit_fields(const Visit& visit, Self& fact) {
  visit("name", fact.name);
  visit("value", fact.value, "as written");
  visit("source", fact.source);
  visit("date", fact.date);
}

template <typename Visit, base::Is<Chip> Self>
void visit_fields(const Visit& visit, Self& chip) {
  const Names bits{{"8", "16", "32"}}, precisions{{"f32", "bf16"}};
  visit("title", chip.title, "What reports call it.");
  visit("kind", chip.kind, schema::one_of("tpu", "gpu"), "The family of accelerators it is of.");
  visit("aliases", chip.aliases, "Other names it is found by; a chip that extends it does not have them.");
  visit("device_names", chip.device_names,
        "What its devices call themselves, as their driver spells it: runs on them are planned for this chip. A chip "
        "that extends it does not have them.");
  visit("plugin_name", chip.plugin_name, "The name PJRT knows it by, where that is not the file's.");

  visit("memory.nominal", chip.nominal_bytes, kBytes, memory(), "Memory of a chip.");
  visit("memory.usable", chip.usable_bytes, kBytes, memory(),
        "What a program may use of it: the limit of a plan. XLA's client on a GPU takes nine tenths of it, which limit "
        "a plan there.");
  visit("memory.reserved", chip.reserved_bytes, kBytes, memory(), "What the system holds back.");
  visit("memory.alignment", chip.alignment, kBytes, memory(), "An allocation is rounded up to a multiple of it.");
  visit("memory.bandwidth", chip.memory_bytes_per_second, rate(), "Bytes a second.");

  visit("compute", chip.peak_flops, Names{{"bf16", "f16", "tf32", "f32", "f8", "int8"}}, rate(),
        "Dense operations a second in {}.");
  visit("compute.devices", chip.devices, count(), "Devices a chip shows itself as; all numbers are of the whole chip.");

  visit("tiles.lanes", chip.tiling.lanes, count(), "The minor dimension is rounded up to a multiple of it.");
  visit("tiles.rows", chip.tiling.rows, bits, count(),
        "The second-minor dimension is rounded to it, for elements of {} bits.");
  visit("tiles.tall_rows", chip.tiling.tall_rows, bits, count(),
        "A taller tile, taken where it pads no more, for elements of {} bits.");

  visit("reached", chip.reached);
  visit("reached", chip.reached_by, Names{{"cuda"}}, "Kernels of backend {}.");

  visit("recompute.selective_speed", chip.selective_recompute, Only<&SelectiveRecompute::speed>{}, precisions, ratio(),
        "Measured speed of a step that XLA compiled with dense feed-forwards at selective recompute, over none. "
        "Training in {}.");
  visit("recompute.selective_memory", chip.selective_recompute, Only<&SelectiveRecompute::memory>{}, precisions,
        ratio(), "Its peak memory over that of none. Training in {}.");

  visit("xla", chip.xla);

  visit("slices.shape", chip.slices.shape, "Neighbours in two or three dimensions, or a switch in every node.");
  visit("slices.valid", chip.slices.valid,
        "Slices it comes in, chips along each dimension: [2x2, 4x8], numbers and x.");
  visit("slices.host", chip.slices.host,
        "Chips of one host, with shape nodes of a node, along each dimension: 2x2 or 8, numbers and x.");
  visit("slices.block", chip.slices.block, count(), "Any slice of whole cubes of this side is valid too.");
  visit("slices.largest", chip.slices.largest, count(), "Chips of the largest slice of such cubes.");
  visit("slices.ring_multiple", chip.slices.ring_multiple, count(),
        "A dimension of a multiple of this closes to a ring.");
  visit("slices.rings_need_all", chip.slices.rings_need_all, "Only where all dimensions are such multiples.");
}

}  // namespace megacpp::hw
