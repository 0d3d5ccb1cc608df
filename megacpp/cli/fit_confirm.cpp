// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/fit_confirm.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "megacpp/cli/output.h"
#include "megacpp/cli/xla_compile.h"
#include "megacpp/core/base/error.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/planned_recipe.h"

namespace megacpp::cli {
namespace {

using launch::Confirmed;
using memory::human_bytes;

std::string error_line(const base::Error& error) {
  return fmt::format("{}: {}: {}", base::code_name(error.code()), error.problem().where, error.problem().got);
}

/// The fastest that fit or are close, as many as were asked for: of the latter only the hardware can tell.
std::vector<size_t> best_of(const FitAnswer& answer, int64_t layouts) {
  const std::vector<fit::FrontPoint> points = answer.points();
  std::vector<size_t> best = answer.order();
  std::erase_if(best, [&points](size_t i) { return points[i].verdict == fit::FitVerdict::does_not_fit; });
  std::ranges::stable_sort(best, std::less<>(), [&points](size_t i) { return points[i].seconds; });
  best.resize(std::min(best.size(), static_cast<size_t>(layouts)));
  return best;
}

/// What to run where the hardware can be asked.
std::string commands(const ConfirmRequest& request, const FitAnswer& answer, const std::string& flags) {
  std::string text;
  for (const size_t index : best_of(answer, request.layouts))
    text += fmt::format("\n  megacpp compile {} --backend xla{} {}", request.recipe, flags,
                        set_words(answer.search.found[index].changes));
  return text;
}

/// Asks the compiler of a TPU slice, which need not be here.
class SliceCompiler {
 public:
  SliceCompiler(const ConfirmRequest& request, const fit::Assumptions& assumptions, launch::UsersCatalog& catalog)
      : request_(request), assumptions_(assumptions), catalog_(catalog) {}

  Confirmed ask(const fit::Found& one) {
    recipe::Recipe recipe = one.recipe;
    recipe.backend = assumptions_.lane.backend;
    const fit::ChipGroup& worst = one.fit.worst();
    Confirmed confirmed{.is_compiled = true, .planned_bytes = worst.needed(), .limit_bytes = worst.limit.bytes};
    try {
      const plan::PlannedRecipe planned(recipe);
      const XlaChoice choice =
          choose_xla(planned, {.target = assumptions_.slice.name, .time_limit = request_.time_limit});
      const XlaCompilation compilation = compile_on_xla(choice, planned, compile_our_placement(planned));
      if (other_compiler_.empty()) other_compiler_ = other_compiler(compilation);
      read(compilation, confirmed);
      if (confirmed.succeeded() || compilation.out_of_memory) tell_catalog(recipe, compilation);
    } catch (const base::Error& error) {
      const bool lacks_compiler = error.code() == base::Code::E1501;
      if (lacks_compiler || base::class_of(error.code()) == base::ErrorClass::internal) throw;
      confirmed.error = error_line(error);
    }
    return confirmed;
  }

  /// That of what was asked so far, as in xla_compile.h.
  const std::string& other() const { return other_compiler_; }

 private:
  static void read(const XlaCompilation& compilation, Confirmed& confirmed) {
    confirmed.measured_bytes = compilation.report.needed_bytes();
    if (compilation.out_of_memory)
      confirmed.out_of_memory = std::string(runtime::plugins::oom_class_name(compilation.out_of_memory->cls));
    else if (compilation.failure)
      confirmed.error = error_line(*compilation.failure);
    else if (const std::string& odd = compilation.report.odd_memory; !odd.empty())
      confirmed.error = fmt::format("{}: memory of the compiled program: {}", base::code_name(base::Code::E3201), odd);
    else if (confirmed.limit_bytes && confirmed.measured_bytes > confirmed.limit_bytes)
      confirmed.out_of_memory = fmt::format("the compiled program, {} of {}", human_bytes(*confirmed.measured_bytes),
                                            human_bytes(*confirmed.limit_bytes));
  }

  /// Of what was judged: a compiler that failed has said nothing, and it does not know of limits of a recipe.
  void tell_catalog(const recipe::Recipe& recipe, const XlaCompilation& compilation) {
    if (!compilation.choice.tpu || !catalog_.why_not().empty()) return;
    const fit::Estimate estimate = fit::make_estimate(recipe, assumptions_);
    catalog_.use([&](catalog::Catalog& open) { remember_compilation(open, estimate, compilation); });
  }

  const ConfirmRequest& request_;
  const fit::Assumptions& assumptions_;
  launch::UsersCatalog& catalog_;
  std::string other_compiler_;
};

/// What to do with each of the best, and what is said before.
void ask_each(const ConfirmRequest& request, FitAnswer& answer, const std::string& doing,
              const std::function<Confirmed(const fit::Found&)>& ask) {
  for (const size_t index : best_of(answer, request.layouts)) {
    const fit::Found& one = answer.search.found[index];
    print_err("{} {}\n", doing, one.layout);
    Confirmed confirmed = ask(one);
    confirmed.found = index;
    answer.confirmed.push_back(std::move(confirmed));
  }
}

void compile_for_slice(const ConfirmRequest& request, const fit::Assumptions& assumptions,
                       launch::UsersCatalog& catalog, FitAnswer& answer) {
  SliceCompiler compiler(request, assumptions, catalog);
  try {
    ask_each(request, answer, "the compiler of " + answer.slice.name + " is asked about",
             [&compiler](const fit::Found& one) { return compiler.ask(one); });
    answer.other_compiler = compiler.other();
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E1501) throw;
    answer.no_confirmation = fmt::format(
        "{} is not here, nor is its compiler ({}), so nothing was asked. Its own compiler confirms the best, after "
        "megacpp plugins fetch tpu:{}",
        answer.slice.name, error.problem().got, commands(request, answer, " --target " + answer.slice.name));
  }
}

}  // namespace

void confirm(const ConfirmRequest& request, const fit::Assumptions& assumptions, launch::UsersCatalog& catalog,
             FitAnswer& answer) {
  if (request.layouts == 0) return;
  const hw::Chip& chip = assumptions.slice.chip;
  if (chip.is_virtual())
    return ask_each(request, answer, "running",
                    [&](const fit::Found& one) { return launch::confirm_on_host(one, assumptions, catalog); });
  const runtime::Backend& backend = runtime::backend_on(chip.kind, assumptions.lane.backend);
  if (backend.compiles_ahead && backend.compiles_ahead(chip))
    return compile_for_slice(request, assumptions, catalog, answer);
  answer.no_confirmation =
      backend.emits_stablehlo
          ? fmt::format("XLA compiles for {} only where it is, so nothing was asked. There these confirm the best:{}",
                        answer.slice.name, commands(request, answer, " --set xla.plugin=cuda"))
          : fmt::format(
                "backend {} places buffers as planned: no compiler is to be asked, a run needs what stands here.",
                assumptions.lane.backend);
}

}  // namespace megacpp::cli
