// SPDX-License-Identifier: Apache-2.0
// fuzz_driver: replays the corpus of every target and as many mutations of it as it is told, with any compiler. The
// exit status is 0 without findings; each finding is printed, and its input written to --findings. The report is a
// table of Markdown, seconds those of all processes together.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/oracle.h"

namespace {

using namespace megacpp::fuzz;

struct Arguments {
  std::vector<std::string> targets = {};
  std::vector<std::string> inputs = {};
  std::string corpus = MEGACPP_SOURCE_DIR "/tests/fuzz/corpus";
  std::string findings = "fuzz-findings";
  uint64_t cases = 0;
  uint64_t seed = 1;
  double hours = 0;
  double seconds = 0;
  size_t jobs = std::max(1u, std::thread::hardware_concurrency());
};

/// 16 hex digits of the content: the same input has the same name.
std::string name_of(const Input& input) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : input) hash = (hash ^ byte) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

void write(const std::filesystem::path& file, const void* bytes, size_t size) {
  std::ofstream(file, std::ios::binary).write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

void keep(const Finding& finding, const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / (finding.target + "-" + name_of(finding.input));
  std::filesystem::create_directories(folder);
  write(file, finding.input.data(), finding.input.size());
  write(file.string() + ".txt", finding.text.data(), finding.text.size());
  fmt::print("finding: {}: {}\n  repeat with: fuzz_driver --target {} {}\n", finding.target, finding.text,
             finding.target, file.string());
  std::fflush(stdout);
}

/// The cases divided by the targets' weights.
std::vector<Assignment> assignments_of(const Arguments& arguments) {
  std::vector<Assignment> assignments;
  int64_t total = 0;
  for (const Target& target : all_targets()) {
    const auto& names = arguments.targets;
    if (!names.empty() && std::find(names.begin(), names.end(), target.name) == names.end()) continue;
    assignments.push_back({.target = &target,
                           .corpus = read_corpus(std::filesystem::path(arguments.corpus) / target.name),
                           .mutations = static_cast<uint64_t>(target.weight)});
    total += target.weight;
  }
  for (Assignment& each : assignments)
    each.mutations = static_cast<uint64_t>(std::ceil(static_cast<double>(arguments.cases) *
                                                     static_cast<double>(each.mutations) / static_cast<double>(total)));
  return assignments;
}

/// Single inputs in this process, for a debugger.
int replay(const Arguments& arguments) {
  const Target* const target = arguments.targets.size() == 1 ? find_target(arguments.targets[0]) : nullptr;
  if (target == nullptr) {
    fmt::print(stderr, "fuzz_driver: inputs need one --target they are for\n");
    return 2;
  }
  int status = 0;
  for (const std::string& file : arguments.inputs) {
    std::ifstream stream(file, std::ios::binary);
    const Input input{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    const Judgement judgement = judge(*target, input);
    fmt::print("{}: {}\n", file,
               judgement.finding.empty() ? (judgement.is_accepted ? "accepted" : "refused") : judgement.finding);
    if (!judgement.finding.empty()) status = 1;
  }
  return status;
}

int run(const Arguments& arguments) {
  CampaignOptions options{.seed = arguments.seed, .jobs = arguments.jobs};
  const double limit = arguments.seconds > 0 ? arguments.seconds : arguments.hours * 3600;
  if (limit > 0) options.total_limit = std::chrono::milliseconds(std::llround(limit * 1000));
  options.on_finding = [&](const Finding& finding) { keep(finding, arguments.findings); };
  const auto begin = std::chrono::steady_clock::now();
  const CampaignReport report =
      (arguments.seconds > 0 ? run_in_turn : run_campaign)(assignments_of(arguments), options);
  uint64_t cases = 0;
  fmt::print(
      "| target | cases | accepted | seconds | slowest ms | findings |\n| --- | --- | --- | --- | --- | --- |\n");
  for (const TargetReport& each : report.targets) {
    fmt::print("| `{}` | {} | {} | {:.1f} | {} | {} |\n", each.name, each.cases, each.accepted, each.seconds,
               each.slowest.count(), each.findings);
    cases += each.cases;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const std::string& name : left_out_targets()) fmt::print("{} left out: needs the header of plugins\n", name);
  fmt::print("total: {} cases, {:.0f} seconds, {} findings\n", cases, seconds, report.findings.size());
  return report.findings.empty() ? 0 : 1;
}

}  // namespace

#ifdef MEGACPP_FUZZ_SANITIZED
// An input of a few bytes that wants more is a finding. What a process leaks is freed when its chunk ends.
extern "C" const char* __asan_default_options() {
  return "hard_rss_limit_mb=6144:max_allocation_size_mb=4096:detect_leaks=0";
}
#endif

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Runs the fuzz targets on their corpus and on mutations of it", "fuzz_driver");
  std::vector<std::string> names;
  for (const Target& target : all_targets()) names.push_back(target.name);
  app.add_option("--target", arguments.targets, "only this target; may be given again")
      ->check(CLI::IsMember(names))
      ->allow_extra_args(false);
  app.add_option("--cases", arguments.cases,
                 "mutations, all targets together, beside the corpus; with --hours and --seconds at most");
  CLI::Option* const hours = app.add_option("--hours", arguments.hours, "begin no case after this time");
  app.add_option("--seconds", arguments.seconds, "so long each target, one after the other")->excludes(hours);
  app.add_option("--jobs", arguments.jobs, "processes at once")->check(CLI::PositiveNumber);
  app.add_option("--seed", arguments.seed, "of the mutations");
  app.add_option("--corpus", arguments.corpus, "folder with a folder of inputs for each target");
  app.add_option("--findings", arguments.findings, "folder for inputs that are findings");
  bool list = false, left_out = false;
  app.add_flag("--list", list, "print each target with its weight and the seconds a case may take, and run nothing");
  app.add_flag("--left-out", left_out, "print the targets that this build leaves out, and run nothing");
  app.add_option("inputs", arguments.inputs, "inputs of one target to run in this process, and nothing else");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const Target& target : all_targets())
      fmt::print("{} {} {}\n", target.name, target.weight, target.limit / std::chrono::seconds(1));
    return 0;
  }
  if (left_out) {
    for (const std::string& name : left_out_targets()) fmt::print("{}\n", name);
    return 0;
  }
  if ((arguments.hours > 0 || arguments.seconds > 0) && arguments.cases == 0) arguments.cases = uint64_t{1} << 40;
  return arguments.inputs.empty() ? run(arguments) : replay(arguments);
}
