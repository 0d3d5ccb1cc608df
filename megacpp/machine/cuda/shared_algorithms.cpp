// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/shared_algorithms.h"

#include <map>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/json.h"
#include "megacpp/machine/cuda/algorithm_search.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr const char* kSubject = "algorithms of products";

struct Decided {
  std::string words;   // of the algorithm, as text
  double seconds = 0;  // as LtChoice
};
using Table = std::map<std::string, Decided>;       // by to_string of the problem
using Problems = std::map<std::string, LtProblem>;  // the same
using FirstUsers = std::map<std::string, int64_t>;  // the first process that has each problem

std::string words_of(const LtAlgorithm& algorithm) { return fmt::format("{}", fmt::join(algorithm.data, " ")); }

LtAlgorithm algorithm_of(const std::string& words) {
  LtAlgorithm algorithm;
  std::istringstream stream(words);
  for (uint64_t& word : algorithm.data) stream >> word;
  MEGACPP_CHECK(!stream.fail()) << "not the words of an algorithm: " << words;
  return algorithm;
}

std::string table_text(const Table& table) {
  base::Json json = base::Json::object();
  for (const auto& [problem, decided] : table)
    json[problem] = base::Json{{"words", decided.words}, {"seconds", decided.seconds}};
  return base::to_text(json);
}

Table table_of(const std::string& text) {
  Table table;
  const base::Json json = base::parse_json(text, base::Code::E9001, kSubject);
  for (const auto& [problem, decided] : json.items())
    table[problem] = {.words = decided.at("words").get<std::string>(), .seconds = decided.at("seconds").get<double>()};
  return table;
}

FirstUsers first_users(collectives::World& world, const Problems& own) {
  base::Json texts = base::Json::array();
  for (const auto& [text, problem] : own) texts.push_back(text);
  FirstUsers users;
  int64_t process = 0;
  for (const std::string& said : world.share("products", base::to_text(texts))) {
    for (const base::Json& text : base::parse_json(said, base::Code::E9001, kSubject))
      users.emplace(text.get<std::string>(), process);
    ++process;
  }
  return users;
}

/// What was chosen for these.
Table choices_for(const std::vector<LtProblem>& problems, const std::map<std::string, LtChoice>& choices) {
  Table table;
  for (const LtProblem& problem : problems) {
    const auto choice = choices.find(to_string(problem));
    if (choice == choices.end()) continue;  // the library has none: our own kernel computes it
    table[choice->first] = {.words = words_of(choice->second.algorithm), .seconds = choice->second.seconds};
  }
  return table;
}

/// What this process chooses for these.
Table chosen(Toolbox& toolbox, const std::vector<LtProblem>& problems) {
  if (problems.empty()) return {};
  choose_algorithms(toolbox, problems);
  return choices_for(problems, toolbox.products().choices());
}

Problems by_text(const std::vector<LtProblem>& problems) {
  Problems texts;
  for (const LtProblem& problem : problems) texts.emplace(to_string(problem), problem);
  return texts;
}

void take(Toolbox& toolbox, const Problems& own, const Table& decided) {
  for (const auto& [text, problem] : own) {
    const auto at = decided.find(text);
    CublasLt& library = toolbox.products();
    if (at == decided.end() || library.choices().contains(text)) continue;
    const LtAlgorithm algorithm = algorithm_of(at->second.words);
    if (!LtProduct(library, problem).serves(algorithm)) continue;
    library.choices().emplace(
        text, LtChoice{.algorithm = algorithm, .origin = LtOrigin::shared, .seconds = at->second.seconds});
  }
}

std::string algorithm_text(const Table& table, const std::string& problem) {
  const auto at = table.find(problem);
  return at == table.end() ? "none of the library's" : at->second.words;
}

void agree(collectives::World& world, const std::vector<collectives::Field>& fields) {
  try {
    world.agree_same(kSubject, fields);
  } catch (const base::Error& error) {
    if (error.code() != base::Code::E3103) throw;
    base::Problem problem = error.problem();
    problem.next = "run on hosts with the same card, driver and version of cuBLASLt";
    base::raise(base::Code::E3103, problem);
  }
}

}  // namespace

void choose_algorithms_together(collectives::World& world, Toolbox& toolbox, const std::vector<LtProblem>& problems) {
  if (world.has_all_chips()) return choose_algorithms(toolbox, problems);
  const Problems own = by_text(problems);
  const FirstUsers users = first_users(world, own);
  std::vector<LtProblem> for_all;  // that this process is the first to have
  for (const LtProblem& problem : problems)
    if (users.at(to_string(problem)) == world.process()) for_all.push_back(problem);
  Table decided;
  for (const std::string& said : world.share(kSubject, table_text(chosen(toolbox, for_all))))
    decided.merge(table_of(said));
  take(toolbox, own, decided);
  const Table used = chosen(toolbox, problems);
  std::vector<collectives::Field> fields;  // all products of the run, with what this process computes its own by
  for (const auto& [text, process] : users)
    fields.push_back({.name = text, .value = algorithm_text(own.contains(text) ? used : decided, text)});
  agree(world, fields);
}

void take_algorithms(const Toolbox& first, Toolbox& other, const std::vector<LtProblem>& problems) {
  if (problems.empty()) return;
  const Problems own = by_text(problems);
  const Table decided = choices_for(problems, first.loaded_products()->choices());
  take(other, own, decided);
  const Table used = chosen(other, problems);
  for (const auto& [text, problem] : own) {
    const std::string wanted = algorithm_text(decided, text), got = algorithm_text(used, text);
    MEGACPP_REQUIRE(got == wanted, E3103,
                    ({.where = fmt::format("{} on {}", text, other.properties().uuid),
                      .got = got,
                      .wanted = fmt::format("{}, as on the first GPU of the process", wanted),
                      .next = "choose GPUs of one kind with CUDA_VISIBLE_DEVICES"}));
  }
}

}  // namespace megacpp::runtime::cuda
