// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/pass.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/stopwatch.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/core/ir/text.h"

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

std::string file_of(const Pass& pass, size_t index) {
  return numbered(index, pass.name) + (pass.text ? ".txt" : ".ir");
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

struct DumpedText {
  std::string file, text;
};

// A compilation on its way through the list.
struct Course {
  Compilation& run;
  ops::Form form = ops::Form::built;    // of its programs
  std::vector<DumpedText> dumped = {};  // what each pass has left, where that is wanted
};

void verify_all(const Compilation& run, ops::Form form) {
  for (const ir::Graph* graph : graphs_of(run)) ops::verify(*graph, form);
}

// Whether a chip has more bytes alive at once. Gaps between buffers, which no pass decides, do not count.
bool needs_more(const Compiled& compiled, const Compiled& than) {
  for (size_t stage = 0; stage < compiled.stages.size(); ++stage) {
    const int64_t before = than.stages[stage].memory.lower_bound;
    if (compiled.stages[stage].memory.lower_bound > before + most_growth(before)) return true;
  }
  return false;
}

class PassRunner {
 public:
  PassRunner(const std::vector<Pass>& passes, const Options& options) : passes_(passes), options_(options) {}

  // Those from `first` on.
  void run_from(size_t first, Course& course) const {
    for (size_t i = first; i < passes_.size(); ++i) {
      const Pass& pass = passes_[i];
      const bool is_off = std::ranges::find(options_.without, pass.name) != options_.without.end();
      if (is_off || !applies(pass, course.run)) continue;
      if (pass.holds_more && pass.holds_more(course.run)) return run_with_and_without(i, course);
      run_pass(i, course);
    }
  }

 private:
  void run_pass(size_t i, Course& course) const {
    const double seconds = base::seconds_of([&] { passes_[i].run(course.run); });
    course.form = passes_[i].leaves.value_or(course.form);
    look_at(i, seconds, course);
  }

  // Verifies, times and dumps what pass i has left.
  void look_at(size_t i, double seconds, Course& course) const {
    const Pass& pass = passes_[i];
    PassTime time{.name = numbered(i, pass.name), .seconds = seconds};
    const std::vector<const ir::Graph*> graphs = graphs_of(course.run);
    for (const ir::Graph* graph : graphs) time.nodes += graph->nodes().size();
    if (!pass.text && options_.verify == Verify::every_pass)
      time.verify_seconds = base::seconds_of([&] { verify_all(course.run, course.form); });
    course.run.compiled.passes.push_back(time);
    if (options_.after_pass) options_.after_pass(pass.name);
    if (options_.dump_dir)
      course.dumped.push_back({file_of(pass, i), pass.text ? pass.text(course.run) : text_of(graphs)});
  }

  // Pass i, which will hold more, and the rest of the list; without the pass where a chip then needs less.
  void run_with_and_without(size_t i, Course& course) const {
    const size_t own = course.run.compiled.passes.size();  // its place among those that ran
    Compilation unchanged = course.run;
    Course without{unchanged, passes_[i].leaves.value_or(course.form), course.dumped};
    run_pass(i, course);
    run_from(i + 1, course);
    look_at(i, 0, without);
    run_from(i + 1, without);
    if (needs_more(course.run.compiled, unchanged.compiled)) {
      std::swap(course.run.compiled, unchanged.compiled);
      course.form = without.form;
      course.dumped = std::move(without.dumped);
    }
    PassTime& time = course.run.compiled.passes[own];
    for (size_t dropped = own; dropped < unchanged.compiled.passes.size(); ++dropped) {
      time.seconds += unchanged.compiled.passes[dropped].seconds;
      time.verify_seconds += unchanged.compiled.passes[dropped].verify_seconds;
    }
  }

  const std::vector<Pass>& passes_;
  const Options& options_;
};

// Without what the list has left there before.
void make_dump_folder(const std::filesystem::path& folder, const std::vector<Pass>& passes) {
  base::make_folder(folder);
  std::error_code ignored;  // most are not there
  for (size_t i = 0; i < passes.size(); ++i) std::filesystem::remove(folder / file_of(passes[i], i), ignored);
}

void write_dumps(const std::filesystem::path& folder, const std::vector<DumpedText>& dumped) {
  for (const auto& [file, text] : dumped) base::write_file_atomically(folder / file, text);
}

}  // namespace

int64_t most_growth(int64_t bytes) { return bytes / 100; }

std::function<void(Compilation&)> each(std::function<ir::Graph(const ir::Graph&)> rewrite) {
  return [rewrite = std::move(rewrite)](Compilation& run) {
    for (Program& program : run.programs) program.graph = rewrite(program.graph);
  };
}

void run_passes(const std::vector<Pass>& passes, const Options& options, Compilation& run) {
  check_without(passes, options.without, run);
  if (options.dump_dir) make_dump_folder(*options.dump_dir, passes);
  Course course{run};
  try {
    PassRunner(passes, options).run_from(0, course);
  } catch (...) {
    if (options.dump_dir) write_dumps(*options.dump_dir, course.dumped);  // what the failing pass got
    throw;
  }
  if (options.dump_dir) write_dumps(*options.dump_dir, course.dumped);
  if (options.verify == Verify::result && !run.compiled.passes.empty())
    run.compiled.passes.back().verify_seconds += base::seconds_of([&] { verify_all(run, course.form); });
}

}  // namespace megacpp::compile
