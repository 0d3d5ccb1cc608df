// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/step_time.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "megacpp/hardware/fit/axis_link.h"
#include "megacpp/hardware/fit/pipeline_time.h"
#include "megacpp/program/compile/collective_report.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tier_copy.h"

namespace megacpp::fit {
namespace {

using ir::Graph;
using ir::Node;

// Time of a step of one chip: every program is walked once, and counts as often as the step runs it. What it sends to
// another stage of a pipeline it does not wait for.
class Walk {
 public:
  Walk(const compile::Compiled& compiled, const hw::Slice& slice, const StepLane& lane)
      : mesh_(compiled.mesh), slice_(slice), chip_(hw::device_of(slice.chip)), lane_(lane) {}

  StageWork::Program add(const compile::Program& walked, int64_t runs) {
    const Graph& graph = walked.graph;
    StageWork::Program program;
    double wire_free = 0, now = 0;
    std::map<uint32_t, double> arrives;  // by value of a start
    wire_.clear();
    copies_free_ = {};
    runs_ = runs;
    kind_ = compile::kind_name(walked.kind);
    for (const Node& node : graph.nodes()) {
      if (node.op == ops::kDoneOp) {
        wait_until(now, arrives.at(node.operands[0].index));
        continue;
      }
      if (node.op == ops::kCopyStartOp) {
        arrives[node.results[0].index] = start_copy(graph, node, now);
        continue;
      }
      if (node.op == ops::kCopyDoneOp) {
        wait_for_copy(now, arrives.at(node.operands[0].index));
        continue;
      }
      if (!ops::op_def(node.op).is_collective) {
        now += compute(graph, node, std::max(0.0, wire_free - now));
        continue;
      }
      const std::string axes = node.attrs.text("axes", "stage");
      const double begins = std::max(now, wire_free);
      wire_free = begins + travel(graph, node, axes);
      wire_.push_back({axes, begins, wire_free});
      const ops::Transfer* const transfer = ops::transfer_of(node);
      if (transfer != nullptr && transfer->kind == ops::Transfer::Kind::send) {
        program.sends.push_back(node.attrs.integer("tag"));
        program.sent_after = wire_free;
      } else if (transfer != nullptr && transfer->kind == ops::Transfer::Kind::receive) {
        program.receives.push_back(node.attrs.integer("tag"));
      } else if (node.op == ops::kStartOp) {
        for (const ir::ValueId result : node.results) arrives[result.index] = wire_free;
      } else {
        wait_until(now, wire_free);
      }
    }
    program.seconds = now;
    return program;
  }

  StepTime finish() {
    for (auto& [axes, link] : links_) {
      if (link.bytes == 0) continue;
      time_.exposed += link.exposed;
      time_.overlapped += link.seconds - std::min(link.seconds, link.exposed);
      time_.links.push_back(link);
    }
    std::ranges::stable_sort(time_.links, std::greater<>(), &LinkTime::seconds);
    for (auto& [name, op] : ops_) time_.ops.push_back(std::move(op));
    std::ranges::stable_sort(time_.ops, std::greater<>(), &OpTime::seconds);
    return std::move(time_);
  }

 private:
  // Collectives are under way for `beside` seconds yet.
  double compute(const Graph& graph, const Node& node, double beside) {
    const ops::OpDef& op = ops::op_def(node.op);
    if (!op.is_work()) return 0;
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    const ops::NodeView view{operands, results, node.attrs};
    NodeTime took = node_time(
        chip_, op, view,
        {.compiler = lane_.compiler, .least_seconds = least_seconds(node, view), .shares_launch = shares_launch(node)});
    took.seconds = slowed_beside(chip_, took.seconds, beside);
    time_.arithmetic += times(took.arithmetic);
    time_.limit += times(took.limit);
    (took.arithmetic_bound ? time_.compute : time_.memory) += times(took.seconds);
    if (runs_ > 0) count(node.op, took);
    return took.seconds;
  }

  double least_seconds(const Node& node, const ops::NodeView& view) const {
    return lane_.kernels != nullptr && lane_.kernels->least_seconds ? lane_.kernels->least_seconds(node.op, view) : 0;
  }

  // Of neighbouring elementwise programs that are alike the first pays for the launch, where a backend runs them
  // together. Which of them wait for one another is not asked: few do.
  bool shares_launch(const Node& node) {
    const bool is_elementwise = ops::op_def(node.op).work == ops::Work::elementwise;
    if (!is_elementwise) launched_.clear();
    if (!is_elementwise || lane_.kernels == nullptr || lane_.kernels->separate_bytes == 0) return false;
    return !launched_.insert(node.attrs.text("program")).second;
  }

  void count(const std::string& op, const NodeTime& took) {
    OpTime& sum = ops_[{kind_, op}];
    sum.program = kind_;
    sum.op = op;
    sum.calls += runs_;
    sum.seconds += times(took.seconds);
    sum.limit += times(took.limit);
  }

  double travel(const Graph& graph, const Node& node, const std::string& axes) {
    const auto [at, is_new] = links_.try_emplace(axes);
    LinkTime& link = at->second;
    if (is_new) {
      AxisLink found = link_along(slice_, mesh_, ir::parse_axes(axes, mesh_));
      link = {.axes = axes, .link = found.name, .bytes_per_second = found.ring.bytes_per_second};
      wires_.emplace(axes, std::move(found));
    }
    const int64_t bytes = compile::sent_bytes(graph, node).value_or(0);
    if (bytes == 0 || link.bytes_per_second == 0) return 0;
    const double seconds = wires_.at(axes).seconds(ops::transfer_of(node)->route, static_cast<double>(bytes));
    link.bytes += runs_ * bytes;
    link.calls += runs_;
    link.seconds += times(seconds);
    return seconds;
  }

  // Copies of a direction follow each other; those from a tier and to it pass each other. When this one is there.
  double start_copy(const Graph& graph, const Node& node, double now) {
    const ir::Tier to = ops::tier_of(node), away = to == ir::Tier::device ? ops::tier_of(graph, node.operands[0]) : to;
    const hw::Link* const link = chip_.link(ir::record(away).link);
    const int64_t bytes = graph.type(node.results[0]).bytes();
    if (link == nullptr) {
      time_.unpriced_bytes += runs_ * bytes;
      return now;
    }
    const double seconds = static_cast<double>(bytes) / link->bytes_per_second;
    double& free = copies_free_[{away, to}];
    free = std::max(free, now) + seconds;
    time_.overlapped += times(seconds);
    return free;
  }

  void wait_for_copy(double& now, double moment) {
    const double exposed = std::max(0.0, moment - now);
    time_.exposed += times(exposed);
    time_.exposed_copies += times(exposed);
    time_.overlapped -= std::min(time_.overlapped, times(exposed));
    now += exposed;
  }

  // A collective may have to queue: the time counts for whatever is on the wire meanwhile.
  void wait_until(double& now, double moment) {
    for (auto use = wire_.rbegin(); use != wire_.rend() && use->ends > now; ++use)
      links_[use->axes].exposed += times(std::max(0.0, std::min(use->ends, moment) - std::max(use->begins, now)));
    now = std::max(now, moment);
  }

  double times(double seconds) const { return static_cast<double>(runs_) * seconds; }

  const ir::Mesh& mesh_;
  const hw::Slice& slice_;
  hw::Chip chip_;
  const StepLane& lane_;
  std::set<std::string, std::less<>> launched_;  // programs of the elementwise nodes since the last other one
  int64_t runs_ = 1;                             // in a step, of the program that is walked
  std::string kind_;                             // its
  std::map<std::pair<std::string, std::string>, OpTime> ops_;  // by kind of program and op
  std::map<std::string, LinkTime> links_;
  std::map<std::string, AxisLink> wires_;  // by axes
  struct Use {
    std::string axes;
    double begins, ends;
  };
  std::vector<Use> wire_;                                        // one after the other
  std::map<std::pair<ir::Tier, ir::Tier>, double> copies_free_;  // by tier and where to: when the next can begin
  StepTime time_;
};

struct StageStep {
  StepTime time;      // without waiting for other stages
  StageWork work;     // before the update
  double update = 0;  // seconds
};

StageStep step_of(const compile::Compiled& compiled, const compile::StagePrograms& chip, const hw::Slice& slice,
                  const StepLane& lane) {
  std::vector<int64_t> runs(chip.programs.size(), 0);
  for (const compile::Action& action : chip.step) ++runs[action.program];
  Walk walk(compiled, slice, lane);
  StageStep step;
  for (size_t p = 0; p < chip.programs.size(); ++p) step.work.programs.push_back(walk.add(chip.programs[p], runs[p]));
  for (const compile::Action& action : chip.step) {
    if (chip.kind_of(action) == compile::ProgramKind::update)
      step.update += step.work.programs[action.program].seconds;
    else
      step.work.runs.push_back({action.program, action.micro});
  }
  step.time = walk.finish();
  return step;
}

// With work at peak rates a step waits for links no less than predicted, and for other stages in proportion to it.
void add_waiting_to_limit(StepTime& time) {
  const double work = time.compute + time.memory;
  const double bubble = work > 0 ? time.bubble * std::min(1.0, time.limit / work) : time.bubble;
  time.limit += time.exposed + bubble;
}

StepRange range_of(const StepTime& time, const hw::Chip& chip, const std::set<OpenEnd>& open) {
  const hw::Reached& reached = chip.reached;
  if (time.is_limit || time.unpriced_bytes > 0 || reached.step_most == 0) return {.least = time.limit};
  if (!open.empty()) return {.least = time.limit, .open = *open.begin()};
  return {.least = std::max(time.limit, reached.step_least * time.seconds()),
          .most = std::max(time.limit, reached.step_most * time.seconds())};
}

}  // namespace

std::string_view part_name(StepPart part) {
  constexpr std::array<std::string_view, 5> kNames = {"arithmetic", "memory", "links", "pipeline bubble", "other"};
  return kNames[static_cast<size_t>(part)];
}

StepPart StepTime::largest() const {
  const std::array<double, 5> seconds = {compute, memory, exposed, bubble, other};  // as the parts are listed
  return static_cast<StepPart>(std::ranges::max_element(seconds) - seconds.begin());
}

std::vector<catalog::Part> parts_of(const StepTime& time) {
  return {{"compute", time.compute}, {"memory", time.memory}, {"links", time.exposed}, {"bubble", time.bubble}};
}

StepTime predict_step(const compile::Compiled& compiled, const hw::Slice& slice, ir::DType precision,
                      const StepLane& lane) {
  std::vector<StageWork> stages;
  StepTime slowest;
  double update = 0;
  std::set<OpenEnd> open;
  if (precision != kMeasuredPrecision) open.insert(OpenEnd::dtype);
  if (lane.has_loops) open.insert(OpenEnd::loops);
  for (const compile::StagePrograms& chip : compiled.stages) {
    StageStep step = step_of(compiled, chip, slice, lane);
    if (step.time.exposed_copies > 0) open.insert(OpenEnd::copies);
    if (!step.time.links.empty()) open.insert(OpenEnd::links);
    if (step.time.seconds() > slowest.seconds()) slowest = std::move(step.time);
    update = std::max(update, step.update);
    stages.push_back(std::move(step.work));
  }
  // Gradients are clipped by the norm of all, so updates begin when the last stage is done.
  if (stages.size() > 1) slowest.bubble = std::max(0.0, pipeline_seconds(stages) + update - slowest.seconds());
  add_waiting_to_limit(slowest);
  const hw::Chip device = hw::device_of(slice.chip);
  slowest.is_limit = !device.reached.is_known();
  slowest.range = range_of(slowest, device, open);
  const double peak = matrix_rate(device, ir::dtype_name(precision)).flops_per_second;
  const double all = peak * static_cast<double>(compiled.mesh.chips());
  if (slowest.seconds() > 0) slowest.mfu = compiled.model_flops / (slowest.seconds() * all);
  return slowest;
}

}  // namespace megacpp::fit
