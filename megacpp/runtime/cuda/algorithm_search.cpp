// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/algorithm_search.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
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

// All once, each after a run that loads its code; then the best few in turn, so that drifting clocks are fair to all.
Timed fastest(const Trial& trial, const std::vector<LtAlgorithm>& proposals) {
  trial.seconds_of(proposals.front(), 1);
  const double once = std::max(trial.seconds_of(proposals.front(), 1), 1e-6);
  trial.seconds_of(proposals.front(), static_cast<int>(std::max(kWarmSeconds / once, 1.0)));
  const int repeats = static_cast<int>(std::max(kMeasuredSeconds / once, 1.0));
  std::vector<Timed> all;
  for (const LtAlgorithm& algorithm : proposals) {
    trial.seconds_of(algorithm, 1);
    all.push_back({algorithm, trial.seconds_of(algorithm, repeats)});
  }
  std::stable_sort(all.begin(), all.end(), is_faster);
  all.resize(std::min(all.size(), kFinalists));
  std::vector<std::vector<double>> rounds(all.size());
  for (int round = 0; round < kFinalRounds; ++round)
    for (size_t i = 0; i < all.size(); ++i) rounds[i].push_back(trial.seconds_of(all[i].algorithm, repeats));
  for (size_t i = 0; i < all.size(); ++i) all[i].seconds = median_of(rounds[i]);
  return *std::min_element(all.begin(), all.end(), is_faster);
}

LtChoice searched(Toolbox& toolbox, const LtProduct& product, const std::vector<LtAlgorithm>& proposals,
                  const std::string& cause) {
  const Trial trial(toolbox, product);
  if (!trial.is_possible())
    return {.algorithm = proposals.front(),
            .origin = LtOrigin::unsearched,
            .cause = cause + ", and no memory was left to search"};
  const Timed best = fastest(trial, proposals);
  return {.algorithm = best.algorithm, .origin = LtOrigin::searched, .cause = cause, .seconds = best.seconds};
}

std::optional<LtChoice> fresh_choice(Toolbox& toolbox, const LtProduct& product) {
  if (product.problem().flops() < kSearchedFlops) {
    const std::vector<LtAlgorithm> first = product.proposals(1);
    if (first.empty()) return std::nullopt;
    return LtChoice{.algorithm = first.front(), .origin = LtOrigin::small};
  }
  const AlgorithmCache cache(algorithm_folder());
  const std::string key = algorithm_key(setting_of(toolbox), product.problem());
  CacheAnswer answer = cache.find(key);
  if (answer.kept && product.serves(answer.kept->algorithm))
    return LtChoice{.algorithm = answer.kept->algorithm, .origin = LtOrigin::kept, .seconds = answer.kept->seconds};
  if (answer.kept) answer.cause = "the library no longer takes what is kept";
  const std::vector<LtAlgorithm> found = product.proposals(kProposals);
  if (found.empty()) return std::nullopt;
  LtChoice choice = searched(toolbox, product, found, answer.cause);
  if (choice.seconds > 0) cache.keep(key, {choice.algorithm, choice.seconds, static_cast<int64_t>(found.size())});
  return choice;
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

std::optional<LtChoice> choose_algorithm(Toolbox& toolbox, const LtProduct& product) {
  std::map<std::string, LtChoice>& choices = toolbox.products().choices();
  const std::string problem = to_string(product.problem());
  const auto known = choices.find(problem);
  if (known != choices.end()) return known->second;
  const std::optional<LtChoice> choice = fresh_choice(toolbox, product);
  if (choice) choices.emplace(problem, *choice);
  return choice;
}

std::string choices_text(const std::map<std::string, LtChoice>& choices) {
  std::map<std::string, int64_t> ways;
  for (const auto& [problem, choice] : choices) ways[way_of(choice)] += 1;
  std::string text;
  for (const auto& [way, count] : ways) text += (text.empty() ? "" : "; ") + std::to_string(count) + " " + way;
  return text.empty() ? text : "algorithms of products: " + text;
}

std::string choices_text(const CublasLt& library) { return choices_text(library.choices()); }

}  // namespace megacpp::runtime::cuda
