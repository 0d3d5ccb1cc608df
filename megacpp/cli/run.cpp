// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/process.h"
#include "megacpp/base/stop_signals.h"
#include "megacpp/cli/command.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/collectives/mpi/mpi_launch.h"
#include "megacpp/launch/restarts.h"
#include "megacpp/sweep/trial_runner.h"

namespace megacpp::cli {
namespace {

constexpr std::string_view kHost = "{host}";

struct RunFlags {
  int64_t restarts = 3;
  std::string launcher;
  std::string hosts;
  std::string probe = "ssh -o BatchMode=yes -o ConnectTimeout=5 {host} true";
  std::vector<std::string> words;
};

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool host_answers(const std::string& probe, const std::string& host) {
  std::vector<std::string> words = words_in(probe);
  for (std::string& word : words)
    if (const size_t at = word.find(kHost); at != std::string::npos) word.replace(at, kHost.size(), host);
  return base::run_program({.words = words}).status == 0;
}

int run_supervised(const RunFlags& flags) {
  const auto launch = collectives::mpi_launch();
  MEGACPP_REQUIRE(!launch, E1007,
                  ({.where = "megacpp run",
                    .got = "one of several processes, started by " + launch->launcher,
                    .wanted = "one process, which starts the launcher",
                    .next = "run: megacpp run --launcher 'mpirun -n 4' -- train ..."}));
  const launch::SupervisedTraining training = launch::supervised_training(flags.words);
  const base::StopRequest stop;
  const auto run = [&stop](const std::vector<std::string>& words) {
    const base::ProgramEnd end = base::run_program(
        {.words = words, .streams = base::Streams::shared, .should_stop = [&stop] { return stop.has_come(); }});
    MEGACPP_REQUIRE(end.status != 127, E1007,
                    {.where = "megacpp run",
                     .got = end.output.empty() ? words.front() + ", which cannot be started" : end.output,
                     .wanted = "a program",
                     .next = "name the launcher as its shell would find it"});
    return stop.has_come() ? base::kInterruptedStatus : end.status;
  };
  launch::RestartOptions options{
      .launcher = words_in(flags.launcher), .program = sweep::this_program(), .restarts = flags.restarts};
  if (!flags.hosts.empty()) options.pool.hosts = launch::hosts_in(flags.hosts);
  options.pool.answers = [&flags](const std::string& host) { return host_answers(flags.probe, host); };
  return launch::run_with_restarts(training, options, run, print_line);
}

}  // namespace

Command run_command() {
  return {
      .name = "run",
      .summary = "train, and start again from the last checkpoint when that fails",
      .example =
          "megacpp run --restarts 5 -- train recipes/nam56r-tiny.yaml --run-dir runs/a --set checkpoint.every=100\n"
          "  megacpp run --launcher 'mpirun -n 4' -- train recipes/nam56r-tiny.yaml --run-dir runs/a\n"
          "  megacpp run --hosts a:4,b:4 --launcher 'mpirun -n {processes} --host {hosts}' -- train --resume runs/a\n"
          "  megacpp run -- train --resume runs/a",
      .declare = [](CLI::App& app) -> std::function<int()> {
        auto flags = std::make_shared<RunFlags>();
        app.add_option("--restarts", flags->restarts, "at most so many")
            ->check(CLI::Range(int64_t{0}, int64_t{1000000}));
        app.add_option("--launcher", flags->launcher,
                       "what starts the processes of the training, with its own flags, separated by spaces")
            ->type_name("WORDS");
        app.add_option("--hosts", flags->hosts,
                       "where to start processes, and how many on each; those that do not answer are left out, and "
                       "the layout is one that fits the rest. In --launcher {hosts} and {processes} stand for them")
            ->type_name("NAME:N,...");
        app.add_option("--probe", flags->probe, "succeeds for a host, {host}, that can be used")->type_name("WORDS");
        app.add_option("training", flags->words, "train with its recipe and flags, behind --")
            ->required()
            ->type_name("WORDS");
        return [flags] { return run_supervised(*flags); };
      }};
}

}  // namespace megacpp::cli
