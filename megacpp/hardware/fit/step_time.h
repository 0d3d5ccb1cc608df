// SPDX-License-Identifier: Apache-2.0
// How long a step should take on given hardware: the compiled programs of a chip walked node by node. A node takes as
// long as node_time.h says; a collective starts when its link is free and runs beside the work between its start and
// its done. Stages of a pipeline run their actions in the order of the schedule and wait for what others hand over.
// What is predicted is what the chip's file says that steps reach, with the least the hardware allows beside it, which
// it is where the file says nothing; the catalog knows how far a lane is from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/hardware/catalog/records.h"
#include "megacpp/hardware/fit/lane.h"
#include "megacpp/hardware/fit/node_time.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// What the collectives over one set of axes cost a chip in a step.
struct LinkTime {
  std::string axes;         // "data+expert"
  std::string link;         // "ici"
  int64_t bytes = 0;        // a chip sends
  int64_t calls = 0;        // in which it sends them, each with its latency: a bucket of tensors is one
  double seconds = 0;       // on the wire
  double exposed = 0;       // while nothing is computed
  double bytes_per_second;  // of a ring along these axes
};

/// What the nodes of one op take in a step, in programs of one kind.
struct OpTime {
  std::string program;  // its kind: "micro_step", "update"
  std::string op;
  int64_t calls = 0;   // in a step
  double seconds = 0;  // at the rates that are reached
  double limit = 0;    // at peak rates
};

/// Of the products that rates in chips' files are of (hw::Reached).
inline constexpr ir::DType kMeasuredPrecision = ir::DType::bf16;

/// Why nothing bounds a step from above: what steps that were measured on the chip do not tell. The first that holds.
enum class OpenEnd : uint8_t {
  no_steps,  // none was
  dtype,     // products are not in bf16, and theirs were
  loops,     // blocks are in loops, and theirs were unrolled
  copies,    // it waits for copies from and to the host, and they did not
  links,     // chips exchange something, and they were steps of one chip
};

/// Between which a measured step is expected, in seconds: as far from the prediction as whole steps on the chip were,
/// and never below the limit.
struct StepRange {
  double least = 0;
  std::optional<double> most = {};
  OpenEnd open = OpenEnd::no_steps;  // where there is no most
};

enum class StepPart : uint8_t { arithmetic, memory, links, bubble, other };
/// "arithmetic", "memory", "links", "pipeline bubble", "other"
std::string_view part_name(StepPart part);

struct StepTime {
  double compute = 0;                // seconds in nodes that arithmetic bounds
  double memory = 0;                 // in nodes that memory traffic bounds
  double exposed = 0;                // waiting for collectives, and for copies from and to the host
  double exposed_copies = 0;         // for the latter: part of it
  double bubble = 0;                 // waiting for other stages of a pipeline
  double other = 0;                  // of a run that was measured: in none of these
  double arithmetic = 0;             // all of it at the chip's peak, whatever bounds the nodes: not part of the sum
  double overlapped = 0;             // on the wire while something is computed: not part of the sum
  std::vector<LinkTime> links = {};  // that carry something, most seconds first
  std::vector<OpTime> ops = {};      // that are work of the chip, most seconds first: what compute and memory are of
  double mfu = 0;                    // model FLOPs over what all chips could do in that time
  double limit = 0;                  // seconds of such a step at peak rates, the roofline: not part of the sum
  bool is_limit = true;              // what steps reach of the peak rates is not known: the sum is the limit
  StepRange range = {};              // of what is predicted
  int64_t unpriced_bytes = 0;        // copied from and to the host, whose link the chip's file lacks: not in any time

  double seconds() const { return compute + memory + exposed + bubble + other; }
  /// What takes the largest share; of equal ones the first.
  StepPart largest() const;
};

/// The seconds by what takes them, as the catalog's samples have them.
std::vector<catalog::Part> parts_of(const StepTime& time);

/// What of a lane its steps depend on.
struct StepLane {
  bool has_loops = false;  // blocks are in loops where steps were measured without: for the range alone
  Compiler compiler = Compiler::ours;
  /// Of the backend that runs there; null: what its kernels take is not known.
  const schedule::Target* kernels = nullptr;
};

/// Of the slowest stage of the pipeline. `precision` is that of compute; `slice` has as many devices
/// as the mesh.
StepTime predict_step(const compile::Compiled& compiled, const hw::Slice& slice, ir::DType precision,
                      const StepLane& lane = {});

}  // namespace megacpp::fit
