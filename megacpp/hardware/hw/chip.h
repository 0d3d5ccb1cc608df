// SPDX-License-Identifier: Apache-2.0
// What is known of a kind of chip: memory, rates, tiles, links, and the slices it comes in. Plain data, read from the
// files in hw/chips (embedded in the program) or from a file of the user's; each number keeps its source in `facts`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::hw {

enum class ChipKind { tpu, gpu, host };
enum class LinkScope { slice, node, cluster };  // what a link reaches: chips of a slice, of one node, anything
enum class SliceShape { torus, nodes };         // neighbours in two or three dimensions, or a switch in every node
std::string_view to_string(ChipKind kind);
std::string_view to_string(LinkScope scope);
std::string_view to_string(SliceShape shape);

using Sizes = std::vector<int64_t>;       // chips along each dimension: {16, 16}
std::string to_text(const Sizes& sizes);  // "16x16"
/// "16x16" in numbers, each from 1 to a million; nothing for other texts.
std::optional<Sizes> read_sizes(std::string_view text);
int64_t product(const Sizes& sizes);

struct Link {
  std::string name;  // "ici", "nvlink", "pcie", "dcn", "network"
  LinkScope scope = LinkScope::cluster;
  double bytes_per_second = 0;  // of a chip in one direction, over all its ports
  int64_t ports = 1;            // of a chip; a torus has two a dimension
  double latency = 0;           // seconds, to the next chip

  double port_bytes_per_second() const { return bytes_per_second / static_cast<double>(ports); }
};

/// How the two minor dimensions of a tensor are rounded up, by bits of an element.
struct Tiling {
  int64_t lanes = 0;                 // of the minor dimension; 0: memory has no tiles
  std::map<int, int64_t> rows;       // of the second-minor one
  std::map<int, int64_t> tall_rows;  // taken instead where they pad no more

  bool exists() const { return lanes > 0; }
};

struct SliceRules {
  SliceShape shape = SliceShape::nodes;
  std::vector<Sizes> valid;
  int64_t block = 0;            // any slice of whole cubes of this side is valid too
  int64_t largest = 0;          // chips of the largest slice of blocks
  int64_t ring_multiple = 0;    // a dimension of a multiple of this closes to a ring
  bool rings_need_all = false;  // only where all dimensions are such multiples
  Sizes host;                   // chips of one host; with shape nodes, of a node
};

/// One number as its file gives it.
struct Fact {
  std::string name;   // "memory.usable"
  std::string value;  // as written
  std::string source;
  std::string date;  // empty where a user's file says none
};

/// What selective recompute was measured to do to a training step on a chip, against a step that recomputes nothing:
/// of blocks whose backward pass reads what it starts from anyway, compiled by XLA.
struct SelectiveRecompute {
  double speed = 0;   // steps a second over those without; from 1 on it costs no time. 0: not measured
  double memory = 0;  // peak over that without; 0: not measured
};

/// What training steps reach of a chip's peak rates, by kind of work, as measured. 0 and empty: not known.
struct Reached {
  double products = 0;                       // share of the peak, at the power that a whole step draws
  std::map<int64_t, double> attention;       // share of the peak, by width of a head
  std::map<int64_t, double> attention_grad;  //
  double ssd = 0;                            // share of the peak: state-space products and their gradients
  double traffic = 0;                        // share of the memory's rate: all other work
  double launch = 0;                         // seconds of an op beside its work: launches and gaps of its kernels
  double beside_collectives = 0;             // share of all these that work keeps while a collective runs beside it
  double step_least = 0, step_most = 0;      // whole steps of one chip in bf16, over predicted ones

  /// Whether predictions by it are more than the roofline.
  bool is_known() const { return products > 0 && traffic > 0; }
};

/// What is known of steps that XLA compiled for a chip, for its backend alone (machine/xla/reserve.h).
struct CompiledByXla {
  int64_t code_least = 0, code_most = 0;  // bytes of the program, where it is in the same memory
  double gaps_least = 1, gaps_most = 1;   // bytes that are reserved, over the planned peak
  double loops_gaps_most = 0;    // the most with blocks in loops, where gaps_most is of unrolled ones; 0: no other
  double off_most = 0;           // how far off the rule for TPUs may be, as a part of it; 0: none was compiled for it
  double unrolled_off_most = 0;  // the same with blocks unrolled
  std::string compiler;          // that was asked, by what it says of its build; empty: not known
};

struct Chip {
  std::string name;
  std::string title;
  std::vector<std::string> aliases;
  std::vector<std::string> device_names;  // what its devices call themselves: "NVIDIA H200"
  std::string plugin_name;                // what PJRT calls it
  std::string origin;                     // "built in", or the file
  ChipKind kind = ChipKind::gpu;

  // Memory, in bytes
  int64_t nominal_bytes = 0;
  int64_t usable_bytes = 0;               // by programs: the limit of a plan; 0: not known
  std::optional<int64_t> reserved_bytes;  // held back by the system, where known
  int64_t alignment = 1;                  // of an allocation
  double memory_bytes_per_second = 0;

  int64_t devices = 1;                        // a chip shows itself as; all numbers are of the whole chip
  std::map<std::string, double> peak_flops;   // by "bf16", "f16", "tf32", "f32", "f8", "int8", dense, per second
  Reached reached;                            // by a lane of which nothing else is known
  std::map<std::string, Reached> reached_by;  // by backend: those whose kernels were measured on the chip
  std::map<std::string, SelectiveRecompute> selective_recompute;  // by precision of training
  Tiling tiling;
  std::vector<Link> links;
  SliceRules slices;
  CompiledByXla xla;
  std::vector<Fact> facts;  // in the order of the file

  /// Whether it is a thread of this machine, whose rates were measured.
  bool is_virtual() const { return kind == ChipKind::host; }
  /// Whether its memory is the machine's, of which others have a part.
  bool shares_machine_memory() const { return is_virtual(); }

  /// Nothing for a dtype without a published rate.
  std::optional<double> peak(std::string_view dtype) const;
  /// Null where its file does not give it.
  const Fact* fact(std::string_view name) const;
  /// Null where it has none of that name.
  const Link* link(std::string_view name) const;
  /// The link between the chips of a slice (torus) or of a node; null where there is none.
  const Link* fastest_link() const;
};

/// The chip as a lane of that backend sees it: `reached`, and the facts about it, are what the backend's kernels were
/// measured to reach where the file has that, else as they are. Of no backend in particular any more.
Chip rates_by(const Chip& chip, std::string_view backend);

/// One device of a chip that shows itself as several: memory, rates and links are shared out. `facts` stay.
Chip device_of(const Chip& chip);

}  // namespace megacpp::hw
