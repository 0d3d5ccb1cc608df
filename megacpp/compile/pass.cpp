// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/pass.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
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

// What passes leave, as text in files; nothing is dumped where they are empty.
struct Dump {
  std::function<void(const std::string& file, const std::string& text)> write = {};
  std::function<void(const std::string& file)> remove = {};
};

struct DumpedText {
  std::string file, text;
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
  PassRunner(const std::vector<Pass>& passes, const Options& options)
      : passes_(passes), without_(options.without), after_pass_(options.after_pass) {}

  enum class Check : uint8_t { every_pass, nothing };

  // Those from `first` on; programs have the form `form` before. The form that they have in the end.
  ops::Form run_from(size_t first, ops::Form form, Compilation& run, const Dump& dump, Check check) const {
    for (size_t i = first; i < passes_.size(); ++i) {
      const Pass& pass = passes_[i];
      if (!applies(pass, run) || std::ranges::find(without_, pass.name) != without_.end()) continue;
      if (pass.holds_more && pass.holds_more(run)) return run_with_and_without(i, form, run, dump, check);
      form = pass.leaves.value_or(form);
      look_at(i, form, base::seconds_of([&] { pass.run(run); }), run, dump, check);
    }
    return form;
  }

 private:
  std::string file_of(size_t i) const { return numbered(i, passes_[i].name) + (passes_[i].text ? ".txt" : ".ir"); }

  // Verifies, times and dumps what pass i has left.
  void look_at(size_t i, ops::Form form, double seconds, Compilation& run, const Dump& dump, Check check) const {
    const Pass& pass = passes_[i];
    PassTime time{.name = numbered(i, pass.name), .seconds = seconds};
    const std::vector<const ir::Graph*> graphs = graphs_of(run);
    for (const ir::Graph* graph : graphs) time.nodes += graph->nodes().size();
    if (!pass.text && check == Check::every_pass)
      time.verify_seconds = base::seconds_of([&] { verify_all(run, form); });
    run.compiled.passes.push_back(time);
    if (after_pass_) after_pass_(pass.name);
    if (dump.write) dump.write(file_of(i), pass.text ? pass.text(run) : text_of(graphs));
  }

  // Pass i, which will hold more, and the rest of the list. What the rest makes of programs as they were before the
  // pass is dumped only if it stays, instead of what was dumped of the others.
  ops::Form run_with_and_without(size_t i, ops::Form before, Compilation& run, const Dump& dump, Check check) const {
    const Pass& pass = passes_[i];
    const ops::Form form = pass.leaves.value_or(before);
    const size_t own = run.compiled.passes.size();  // its place among those that ran
    Compilation without = run;
    look_at(i, form, base::seconds_of([&] { pass.run(run); }), run, dump, check);
    ops::Form last = run_from(i + 1, form, run, dump, check);
    std::vector<DumpedText> kept;
    const Dump keeping = keeping_texts(dump, kept);
    look_at(i, form, 0, without, keeping, Check::nothing);
    const ops::Form last_without = run_from(i + 1, form, without, keeping, Check::nothing);
    double verify_seconds = 0;
    if (needs_more(run.compiled, without.compiled)) {
      std::swap(run.compiled, without.compiled);
      last = last_without;
      if (check == Check::every_pass) verify_seconds = base::seconds_of([&] { verify_all(run, last); });
      replace_dumps(i, dump, kept);
    }
    PassTime& time = run.compiled.passes[own];
    time.verify_seconds += verify_seconds;
    for (size_t dropped = own; dropped < without.compiled.passes.size(); ++dropped) {
      time.seconds += without.compiled.passes[dropped].seconds;
      time.verify_seconds += without.compiled.passes[dropped].verify_seconds;
    }
    return last;
  }

  // Of passes from i on. One that ran before may have had nothing to do now.
  void replace_dumps(size_t i, const Dump& dump, const std::vector<DumpedText>& kept) const {
    if (!dump.write) return;
    for (size_t j = i; j < passes_.size(); ++j) dump.remove(file_of(j));
    for (const auto& [file, text] : kept) dump.write(file, text);
  }

  // Writes nothing yet.
  static Dump keeping_texts(const Dump& dump, std::vector<DumpedText>& kept) {
    if (!dump.write) return {};
    return {.write =
                [&kept](const std::string& file, const std::string& text) {
                  kept.push_back({file, text});
                },
            .remove =
                [&kept](const std::string& file) {
                  std::erase_if(kept, [&file](const DumpedText& dumped) { return dumped.file == file; });
                }};
  }

  const std::vector<Pass>& passes_;
  const std::vector<std::string>& without_;
  const std::function<void(std::string_view)>& after_pass_;
};

}  // namespace

int64_t most_growth(int64_t bytes) { return bytes / 100; }

std::function<void(Compilation&)> each(std::function<ir::Graph(const ir::Graph&)> rewrite) {
  return [rewrite = std::move(rewrite)](Compilation& run) {
    for (Program& program : run.programs) program.graph = rewrite(program.graph);
  };
}

void run_passes(const std::vector<Pass>& passes, const Options& options, Compilation& run) {
  check_without(passes, options.without, run);
  Dump dump;
  if (options.dump_dir) {
    const std::filesystem::path& folder = *options.dump_dir;
    base::make_folder(folder);
    dump.write = [&folder](const std::string& file, const std::string& text) {
      base::write_file_atomically(folder / file, text);
    };
    dump.remove = [&folder](const std::string& file) {
      std::error_code ignored;  // most are not there
      std::filesystem::remove(folder / file, ignored);
    };
  }
  using Check = PassRunner::Check;
  const Check check = options.verify == Verify::every_pass ? Check::every_pass : Check::nothing;
  const ops::Form form = PassRunner(passes, options).run_from(0, ops::Form::built, run, dump, check);
  if (options.verify == Verify::result && !run.compiled.passes.empty())
    run.compiled.passes.back().verify_seconds += base::seconds_of([&] { verify_all(run, form); });
}

}  // namespace megacpp::compile
