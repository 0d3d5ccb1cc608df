// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/algorithm_search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/hash.h"
#include "megacpp/core/base/stopwatch.h"
#include "megacpp/machine/cuda/algorithm_cache.h"
#include "megacpp/machine/cuda/algorithm_rounds.h"
#include "megacpp/machine/cuda/kernels/dot_plain_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kProposals = 32;
constexpr double kSearchedFlops = 1e9;     // below, all proposals take some microseconds
constexpr double kWarmSeconds = 0.4;       // of work before anything is timed: clocks settle at the limit of power
constexpr double kMeasuredSeconds = 2e-4;  // that events can tell apart
constexpr double kSearchSeconds = 5;       // of one load, for all its products: some tenths of a step each
constexpr size_t kLeastTimed = 2;          // of the proposals for a product, however little of that is left

// The release of the driver, which its version for programs does not tell; its first line is enough.
std::string driver_release(const Driver& driver) {
  std::string text;
  try {
    text = base::read_file("/proc/driver/nvidia/version");
  } catch (const base::Error&) {  // not on every system
  }
  const std::string line = text.substr(0, text.find('\n'));
  return version_text(driver.version) + (line.empty() ? "" : " (" + line + ")");
}

AlgorithmSetting setting_of(Toolbox& toolbox) {
  return {.card = toolbox.properties().name,
          .multiprocessors = toolbox.properties().multiprocessors,
          .driver = driver_release(toolbox.driver()),
          .library = toolbox.products().version()};
}

// Operands of one product and room for its result.
struct OperandSet {
  std::unique_ptr<Borrowed> a, b, d;
  bool is_whole() const { return a && b && d; }
};

// Memory of a product's size with numbers like a model's: rates under the card's power limit depend on them. Several
// sets where one would stay in the cache, used in turn.
class Trial {
 public:
  Trial(Toolbox& toolbox, const LtProduct& product) : toolbox_(toolbox), product_(product) {
    const LtProblem& problem = product.problem();
    workspace_ = toolbox.borrow(std::max<int64_t>(problem.workspace_bytes, 1));
    const int64_t wanted =
        operand_sets(problem.a.bytes() + problem.b.bytes() + problem.d.bytes(), toolbox.properties().l2_bytes);
    while (std::ssize(sets_) < wanted) {
      OperandSet set;
      set.a = lend(problem.a);
      set.b = lend(problem.b);
      set.d = lend(problem.d);
      if (!set.is_whole()) break;
      sets_.push_back(std::move(set));
    }
  }

  /// Whether the device had the memory, for one set at least.
  bool is_possible() const { return !sets_.empty() && workspace_; }

  double seconds_of(const LtAlgorithm& algorithm, int repeats) {
    const double seconds = toolbox_.seconds_of([&](Stream* stream) {
      for (int i = 0; i < repeats; ++i) product_.run(algorithm, next_addresses(), stream);
    });
    return seconds / repeats;
  }

 private:
  LtAddresses next_addresses() {
    const OperandSet& set = sets_[next_];
    next_ = (next_ + 1) % sets_.size();
    return {.a = set.a->address(),
            .b = set.b->address(),
            .d = set.d->address(),
            .addend = set.d->address(),
            .workspace = workspace_->address()};
  }

  std::unique_ptr<Borrowed> lend(const LtMatrix& matrix) {
    std::unique_ptr<Borrowed> memory = toolbox_.borrow(matrix.bytes());
    if (!memory) return nullptr;
    const FillParams params = {.data = memory->address(),
                               .count = matrix.bytes() / ir::dtype_bytes(matrix.dtype),
                               .is_bf16 = matrix.dtype == ir::DType::bf16};
    launch(toolbox_.function("dot_plain", "fill_random"),
           {.grid = {kFillBlocks, 1, 1}, .block = {kDotPlainThreads, 1, 1}}, toolbox_.stream(), params);
    return memory;
  }

  Toolbox& toolbox_;
  const LtProduct& product_;
  std::unique_ptr<Borrowed> workspace_;
  std::vector<OperandSet> sets_;
  size_t next_ = 0;  // set
};

struct Found {
  LtAlgorithm algorithm;
  double seconds;
  int64_t timed;  // proposals
};

// How many proposals there is time for, with a run of each that loads its code, a time, and all rounds behind.
size_t affordable(const std::vector<LtAlgorithm>& proposals, double once, double seconds) {
  const double later = static_cast<double>(AlgorithmRounds::most_times_after_first());
  const double count = (seconds / once - later) / 2;
  return std::min(proposals.size(), std::max(kLeastTimed, static_cast<size_t>(std::max(count, 0.0))));
}

// In the library's order, best first by its own rules, as many as there is time for.
Found fastest(Trial& trial, const std::vector<LtAlgorithm>& proposals, double seconds) {
  trial.seconds_of(proposals.front(), 1);
  const double once = std::max(trial.seconds_of(proposals.front(), 1), 1e-6);
  const int repeats = static_cast<int>(std::max(kMeasuredSeconds / once, 1.0));
  const size_t candidates = affordable(proposals, once * repeats, seconds);
  for (size_t i = 1; i < candidates; ++i) trial.seconds_of(proposals[i], 1);
  AlgorithmRounds rounds(candidates);
  for (std::vector<size_t> round = rounds.round(); !round.empty(); round = rounds.round()) {
    for (const size_t candidate : round) rounds.add(candidate, trial.seconds_of(proposals[candidate], repeats));
    rounds.end_round();
  }
  return {.algorithm = proposals[rounds.best()],
          .seconds = rounds.median_of(rounds.best()),
          .timed = static_cast<int64_t>(candidates)};
}

/// A product that nothing is kept for.
struct Search {
  std::string problem;  // as text
  std::string key;      // to keep the answer by
  std::string cause;    // why it is searched
  std::unique_ptr<LtProduct> product;
  std::vector<LtAlgorithm> proposals;
  double flops = 0;  // of all nodes that are this product
};

// Whichever runs first finds a card at rest.
void warm_up(Trial& trial, const LtAlgorithm& algorithm) {
  const auto start = std::chrono::steady_clock::now();
  while (base::seconds_since(start) < kWarmSeconds) trial.seconds_of(algorithm, 1);
}

struct SearchTime {
  bool warms_up = false;
  double seconds = 0;
};

LtChoice searched(Toolbox& toolbox, const AlgorithmCache& cache, const Search& search, const SearchTime& time) {
  Trial trial(toolbox, *search.product);
  if (!trial.is_possible())
    return {.algorithm = search.proposals.front(),
            .origin = LtOrigin::unsearched,
            .cause = search.cause + ", and no memory was left to search"};
  if (time.warms_up) warm_up(trial, search.proposals.front());
  const Found found = fastest(trial, search.proposals, time.seconds);
  cache.keep(search.key, {found.algorithm, found.seconds, found.timed});
  return {.algorithm = found.algorithm, .origin = LtOrigin::searched, .cause = search.cause, .seconds = found.seconds};
}

// Nothing where a search must decide, or where the library has no algorithm: `search` has proposals or none then.
std::optional<LtChoice> unsearched_choice(Toolbox& toolbox, const AlgorithmCache& cache, Search& search) {
  const LtProduct& product = *search.product;
  if (product.problem().flops() < kSearchedFlops) {
    const std::vector<LtAlgorithm> first = product.proposals(1);
    if (first.empty()) return std::nullopt;
    return LtChoice{.algorithm = first.front(), .origin = LtOrigin::small};
  }
  search.key = algorithm_key(setting_of(toolbox), product.problem());
  CacheAnswer answer = cache.find(search.key);
  if (answer.kept && product.serves(answer.kept->algorithm))
    return LtChoice{.algorithm = answer.kept->algorithm, .origin = LtOrigin::kept, .seconds = answer.kept->seconds};
  search.cause = answer.kept ? "the library no longer takes what is kept" : answer.cause;
  search.proposals = product.proposals(kProposals);
  return std::nullopt;
}

// By their text, each once, with the work of all nodes that are the same.
std::map<std::string, Search> distinct(const CublasLt& library, const std::vector<LtProblem>& problems) {
  std::map<std::string, Search> searches;
  for (const LtProblem& problem : problems) {
    std::string text = to_string(problem);
    if (library.choices().contains(text)) continue;
    Search& search = searches[text];
    search.flops += problem.flops();
    if (search.product) continue;
    search.problem = std::move(text);
    search.product = std::make_unique<LtProduct>(library, problem);
  }
  return searches;
}

double work_of(std::span<const Search> searches) {
  double flops = 0;
  for (const Search& search : searches) flops += search.flops;
  return flops;
}

// The most expensive first: what those do not use of their share is there for the others.
void search_all(Toolbox& toolbox, const AlgorithmCache& cache, std::vector<Search> searches) {
  CublasLt& library = toolbox.products();
  std::ranges::stable_sort(searches, std::greater<>(), &Search::flops);
  for (size_t i = 0; i < searches.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double share = search_share({.seconds_left = kSearchSeconds - library.searched_seconds(),
                                       .searches_left = searches.size() - i,
                                       .flops = searches[i].flops,
                                       .flops_left = work_of(std::span(searches).subspan(i))});
    library.choices().emplace(searches[i].problem,
                              searched(toolbox, cache, searches[i], {.warms_up = i == 0, .seconds = share}));
    library.add_searched_seconds(base::seconds_since(start));
  }
}

std::string way_of(const LtChoice& choice) {
  switch (choice.origin) {
    case LtOrigin::kept:
      return "kept";
    case LtOrigin::searched:
      return "searched, since " + choice.cause;
    case LtOrigin::shared:
      return "chosen elsewhere in the run";
    case LtOrigin::unsearched:
      return "not searched, since " + choice.cause;
    case LtOrigin::small:
      return "too small to search";
  }
  return "";
}

}  // namespace

double search_share(const SearchBudget& budget) {
  const double even = 1 / static_cast<double>(budget.searches_left);
  const double by_work = budget.flops_left > 0 ? budget.flops / budget.flops_left : even;
  return std::max(budget.seconds_left, 0.0) * (even + by_work) / 2;
}

void choose_algorithms(Toolbox& toolbox, const std::vector<LtProblem>& problems) {
  if (problems.empty()) return;
  CublasLt& library = toolbox.products();
  const AlgorithmCache cache(algorithm_folder());
  std::vector<Search> searches;
  for (auto& [problem, search] : distinct(library, problems)) {
    if (const std::optional<LtChoice> choice = unsearched_choice(toolbox, cache, search))
      library.choices().emplace(problem, *choice);
    else if (!search.proposals.empty())
      searches.push_back(std::move(search));
  }
  search_all(toolbox, cache, std::move(searches));
}

std::optional<LtChoice> choose_algorithm(Toolbox& toolbox, const LtProduct& product) {
  choose_algorithms(toolbox, {product.problem()});
  const std::map<std::string, LtChoice>& choices = toolbox.products().choices();
  const auto chosen = choices.find(to_string(product.problem()));
  return chosen == choices.end() ? std::nullopt : std::optional(chosen->second);
}

std::string choices_text(const std::map<std::string, LtChoice>& choices) {
  std::map<std::string, int64_t> ways;
  for (const auto& [problem, choice] : choices) ways[way_of(choice)] += 1;
  std::string text;
  for (const auto& [way, count] : ways) text += (text.empty() ? "" : "; ") + std::to_string(count) + " " + way;
  return text.empty() ? text : "algorithms of products: " + text;
}

std::string choices_hash(const std::map<std::string, LtChoice>& choices) {
  std::string text;
  for (const auto& [problem, choice] : choices) {
    text += problem;
    for (const uint64_t word : choice.algorithm.data) text += " " + std::to_string(word);
    text += "\n";
  }
  return base::hash_text(text);
}

std::string choices_text(const CublasLt& library) { return choices_text(library.choices()); }

}  // namespace megacpp::runtime::cuda
