// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/algorithm_search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/hash.h"
#include "megacpp/base/stopwatch.h"
#include "megacpp/runtime/cuda/algorithm_cache.h"
#include "megacpp/runtime/cuda/kernels/dot_plain_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kProposals = 32;
constexpr size_t kFinalists = 4;
constexpr int kFinalRounds = 5;
constexpr double kSearchedFlops = 1e9;     // below, all proposals take some microseconds
constexpr double kWarmSeconds = 0.05;      // of work before anything is timed: clocks settle
constexpr double kMeasuredSeconds = 2e-4;  // that events can tell apart
constexpr double kSearchSeconds = 4;       // of one load, for all its products: some tenths of a step each
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

// Memory of a product's size with numbers like a model's: rates under the card's power limit depend on them.
class Trial {
 public:
  Trial(Toolbox& toolbox, const LtProduct& product) : toolbox_(toolbox), product_(product) {
    const LtProblem& problem = product.problem();
    a_ = lend(problem.a);
    b_ = lend(problem.b);
    d_ = lend(problem.d);
    workspace_ = toolbox.borrow(std::max<int64_t>(problem.workspace_bytes, 1));
  }

  /// Whether the device had the memory.
  bool is_possible() const { return a_ && b_ && d_ && workspace_; }

  double seconds_of(const LtAlgorithm& algorithm, int repeats) const {
    const LtAddresses at = {.a = a_->address(),
                            .b = b_->address(),
                            .d = d_->address(),
                            .addend = d_->address(),
                            .workspace = workspace_->address()};
    const double seconds = toolbox_.seconds_of([&](Stream* stream) {
      for (int i = 0; i < repeats; ++i) product_.run(algorithm, at, stream);
    });
    return seconds / repeats;
  }

 private:
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
  std::unique_ptr<Borrowed> a_, b_, d_, workspace_;
};

struct Timed {
  LtAlgorithm algorithm;
  double seconds;
};

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_faster(const Timed& x, const Timed& y) { return x.seconds < y.seconds; }

struct Found {
  Timed best;
  int64_t timed;  // proposals
};

// In the library's order, best first by its own rules, as many as there is time for, each after a run that loads its
// code; then the best few in turn, so that drifting clocks are fair to all.
Found fastest(const Trial& trial, const std::vector<LtAlgorithm>& proposals, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  trial.seconds_of(proposals.front(), 1);
  const double once = std::max(trial.seconds_of(proposals.front(), 1), 1e-6);
  const int repeats = static_cast<int>(std::max(kMeasuredSeconds / once, 1.0));
  const double finals = once * repeats * kFinalRounds * static_cast<double>(kFinalists);
  std::vector<Timed> all;
  for (const LtAlgorithm& algorithm : proposals) {
    if (all.size() >= kLeastTimed && base::seconds_since(start) + finals > seconds) break;
    trial.seconds_of(algorithm, 1);
    all.push_back({algorithm, trial.seconds_of(algorithm, repeats)});
  }
  const int64_t timed = std::ssize(all);
  std::stable_sort(all.begin(), all.end(), is_faster);
  all.resize(std::min(all.size(), kFinalists));
  std::vector<std::vector<double>> rounds(all.size());
  for (int round = 0; round < kFinalRounds; ++round)
    for (size_t i = 0; i < all.size(); ++i) rounds[i].push_back(trial.seconds_of(all[i].algorithm, repeats));
  for (size_t i = 0; i < all.size(); ++i) all[i].seconds = median_of(rounds[i]);
  return {.best = *std::min_element(all.begin(), all.end(), is_faster), .timed = timed};
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
void warm_up(const Trial& trial, const LtAlgorithm& algorithm) {
  const auto start = std::chrono::steady_clock::now();
  while (base::seconds_since(start) < kWarmSeconds) trial.seconds_of(algorithm, 1);
}

struct SearchTime {
  bool warms_up = false;
  double seconds = 0;
};

LtChoice searched(Toolbox& toolbox, const AlgorithmCache& cache, const Search& search, const SearchTime& time) {
  const Trial trial(toolbox, *search.product);
  if (!trial.is_possible())
    return {.algorithm = search.proposals.front(),
            .origin = LtOrigin::unsearched,
            .cause = search.cause + ", and no memory was left to search"};
  if (time.warms_up) warm_up(trial, search.proposals.front());
  const Found found = fastest(trial, search.proposals, time.seconds);
  cache.keep(search.key, {found.best.algorithm, found.best.seconds, found.timed});
  return {.algorithm = found.best.algorithm,
          .origin = LtOrigin::searched,
          .cause = search.cause,
          .seconds = found.best.seconds};
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
    case LtOrigin::unsearched:
      return "not searched, since " + choice.cause;
    case LtOrigin::small:
      return "too small to search";
  }
  return "";
}

}  // namespace

double search_share(const SearchBudget& budget) {
  const double even = 1 / static_cast<double>(budget.searches_left), by_work = budget.flops / budget.flops_left;
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
