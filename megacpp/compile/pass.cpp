// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/pass.h"

#include <algorithm>
#include <utility>

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

using Dump = std::function<void(const std::string& file, const std::string& text)>;  // empty: nothing is dumped

// Whether a chip has more bytes alive at once. Gaps between buffers, which no pass decides, do not count.
bool needs_more(const Compiled& compiled, const Compiled& than) {
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) {
    const auto most = static_cast<double>(than.stages[stage].memory.lower_bound) * (1 + kMostGrowth);
    if (static_cast<double>(compiled.stages[stage].memory.lower_bound) > most) return true;
  }
  return false;
}

class PassRunner {
 public:
  PassRunner(const std::vector<Pass>& passes, const std::vector<std::string>& without)
      : passes_(passes), without_(without) {}

  // Those from `first` on; programs have the form `form` before.
  void run_from(size_t first, ops::Form form, Compilation& run, const Dump& dump) const {
    for (size_t i = first; i < passes_.size(); ++i) {
      const Pass& pass = passes_[i];
      if (!applies(pass, run) || std::ranges::find(without_, pass.name) != without_.end()) continue;
      if (pass.holds_more) return run_with_and_without(i, form, run, dump);
      form = pass.leaves.value_or(form);
      look_at(i, form, base::seconds_of([&] { pass.run(run); }), run, dump);
    }
  }

 private:
  // Verifies, times and dumps what pass i has left.
  void look_at(size_t i, ops::Form form, double seconds, Compilation& run, const Dump& dump) const {
    const Pass& pass = passes_[i];
    PassTime time{.name = numbered(i, pass.name), .seconds = seconds};
    const std::vector<const ir::Graph*> graphs = graphs_of(run);
    for (const ir::Graph* graph : graphs) time.nodes += graph->nodes().size();
    if (!pass.text)
      time.verify_seconds = base::seconds_of([&] {
        for (const ir::Graph* graph : graphs) ops::verify(*graph, form);
      });
    run.compiled.passes.push_back(time);
    if (dump) dump(time.name + (pass.text ? ".txt" : ".ir"), pass.text ? pass.text(run) : text_of(graphs));
  }

  // Pass i and the rest of the list. What the rest makes of programs as they were before the pass is dumped only if it
  // stays, over what was dumped of the others.
  void run_with_and_without(size_t i, ops::Form before, Compilation& run, const Dump& dump) const {
    const Pass& pass = passes_[i];
    const ops::Form form = pass.leaves.value_or(before);
    const size_t own = run.compiled.passes.size();  // its place among those that ran
    Compilation without = run;
    const double seconds = base::seconds_of([&] { pass.run(run); });
    const bool holds_more = pass.holds_more(run);
    look_at(i, form, seconds, run, dump);
    run_from(i + 1, form, run, dump);
    if (!holds_more) return;
    std::vector<std::pair<std::string, std::string>> dumps;  // file, text
    const Dump keep = [&dumps](const std::string& file, const std::string& text) { dumps.emplace_back(file, text); };
    look_at(i, form, 0, without, dump ? keep : dump);
    run_from(i + 1, form, without, dump ? keep : dump);
    if (needs_more(run.compiled, without.compiled)) {
      std::swap(run.compiled, without.compiled);
      for (const auto& [file, text] : dumps) dump(file, text);
    }
    PassTime& time = run.compiled.passes[own];
    for (size_t dropped = own; dropped < without.compiled.passes.size(); ++dropped) {
      time.seconds += without.compiled.passes[dropped].seconds;
      time.verify_seconds += without.compiled.passes[dropped].verify_seconds;
    }
  }

  const std::vector<Pass>& passes_;
  const std::vector<std::string>& without_;
};

}  // namespace

std::function<void(Compilation&)> each(std::function<ir::Graph(const ir::Graph&)> rewrite) {
  return [rewrite = std::move(rewrite)](Compilation& run) {
    for (Program& program : run.programs) program.graph = rewrite(program.graph);
  };
}

void run_passes(const std::vector<Pass>& passes, const Options& options, Compilation& run) {
  check_without(passes, options.without, run);
  Dump dump;
  if (options.dump_dir) {
    base::make_folder(*options.dump_dir);
    dump = [&folder = *options.dump_dir](const std::string& file, const std::string& text) {
      base::write_file_atomically(folder / file, text);
    };
  }
  PassRunner(passes, options.without).run_from(0, ops::Form::built, run, dump);
}

}  // namespace megacpp::compile
