// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/pass.h"

#include <algorithm>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/stopwatch.h"
#include "megacpp/base/suggest.h"
#include "megacpp/ir/text.h"

namespace megacpp::compile {
namespace {

// Those on their way, and those that are finished.
std::vector<const ir::Graph*> graphs_of(const Compilation& run) {
  std::vector<const ir::Graph*> graphs;
  for (const Program& program : run.programs) graphs.push_back(&program.graph);
  for (const StagePrograms& stage : run.compiled.stages)
    for (const Program& program : stage.programs) graphs.push_back(&program.graph);
  return graphs;
}

std::string text_of(const std::vector<const ir::Graph*>& graphs) {
  std::string text;
  for (const ir::Graph* graph : graphs) text += ir::print(*graph);
  return text;
}

// "07-split": the place in the whole list, whichever passes run.
std::string numbered(size_t index, std::string_view name) {
  const std::string number = std::to_string(index + 1);
  return (number.size() < 2 ? "0" : "") + number + "-" + std::string(name);
}

base::Decision applies(const Pass& pass, const Compilation& run) {
  return pass.applies ? pass.applies(run) : base::Decision::yes();
}

// Why the pass must run although it was switched off; yes: it can be.
base::Decision can_be_left_out(const Pass& pass, const Compilation& run) {
  if (!pass.needed.empty()) return base::Decision::no("cannot be switched off: " + std::string(pass.needed));
  const base::Decision runs = applies(pass, run);
  if (!runs) return base::Decision::no("does not run here: " + runs.reason());
  return base::Decision::yes();
}

void check_without(const std::vector<Pass>& passes, const std::vector<std::string>& without, const Compilation& run) {
  std::vector<std::string> optional;
  std::string list;
  for (const Pass& pass : passes)
    if (can_be_left_out(pass, run)) {
      optional.emplace_back(pass.name);
      list += (list.empty() ? "" : ", ") + optional.back();
    }
  for (const std::string& name : without) {
    const auto pass = std::ranges::find(passes, name, &Pass::name);
    MEGACPP_REQUIRE(pass != passes.end(), E1007,
                    {.where = "--without " + name,
                     .got = "no pass of that name",
                     .wanted = "one of " + list,
                     .next = base::did_you_mean(name, optional, "see megacpp compile --help")});
    const base::Decision can = can_be_left_out(*pass, run);
    MEGACPP_REQUIRE(can, E1007,
                    {.where = "--without " + name,
                     .got = "a pass that " + can.reason(),
                     .wanted = "one of " + list,
                     .next = "leave it out"});
  }
}

}  // namespace

std::function<void(Compilation&)> each(std::function<ir::Graph(const ir::Graph&)> rewrite) {
  return [rewrite = std::move(rewrite)](Compilation& run) {
    for (Program& program : run.programs) program.graph = rewrite(program.graph);
  };
}

void run_passes(const std::vector<Pass>& passes, const Options& options, Compilation& run) {
  check_without(passes, options.without, run);
  if (options.dump_dir) base::make_folder(*options.dump_dir);
  ops::Form form = ops::Form::built;
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    if (!applies(pass, run) || std::ranges::find(options.without, pass.name) != options.without.end()) continue;
    PassTime time{.name = numbered(i, pass.name), .seconds = base::seconds_of([&] { pass.run(run); })};
    const std::vector<const ir::Graph*> graphs = graphs_of(run);
    for (const ir::Graph* graph : graphs) time.nodes += graph->nodes().size();
    form = pass.leaves.value_or(form);
    if (!pass.text)
      time.verify_seconds = base::seconds_of([&] {
        for (const ir::Graph* graph : graphs) ops::verify(*graph, form);
      });
    run.compiled.passes.push_back(time);
    if (!options.dump_dir) continue;
    base::write_file_atomically(*options.dump_dir / (time.name + (pass.text ? ".txt" : ".ir")),
                                pass.text ? pass.text(run) : text_of(graphs));
  }
}

}  // namespace megacpp::compile
