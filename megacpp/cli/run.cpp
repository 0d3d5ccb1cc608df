// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "megacpp/cli/command.h"
#include "megacpp/cli/number_flag.h"
#include "megacpp/cli/print_log.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/base/process.h"
#include "megacpp/core/base/stop_signals.h"
#include "megacpp/evidence/sweep/trial_runner.h"
#include "megacpp/run/launch/over_processes.h"
#include "megacpp/run/launch/restarts.h"

namespace megacpp::cli {
namespace {

constexpr const char* kUsualProbe = "ssh -o BatchMode=yes -o ConnectTimeout=5 {host} true";

struct RunFlags {
  int64_t restarts = 3;
  std::string launcher;
  std::string hosts;
  std::string probe;  // empty: the usual one
  std::vector<std::string> words;
};

// No shell reads them.
std::vector<std::string> words_in(const std::string& text, std::string_view flag) {
  MEGACPP_REQUIRE(text.find_first_of("'\"`$|;&<>") == std::string::npos, E1007,
                  {.where = std::string(flag),
                   .got = text,
                   .wanted = "words that are separated by spaces: no shell reads them, so none may be quoted",
                   .next = "put what needs a shell into a script, and name that"});
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

int run_start(const launch::Start& start, const base::StopRequest& stop) {
  bool is_told = false;
  const auto should_stop = [&] {
    if (stop.has_come() && !std::exchange(is_told, true))
      print_line({.topic = "stopping",
                  .text = "the training ends with its step, and saves; another signal after a second ends it at once"});
    return stop.has_come();
  };
  const base::ProgramEnd end =
      base::run_program({.words = start.words,
                         .streams = base::Streams::shared,
                         .interrupts = base::Interrupts::caller,
                         .should_stop = should_stop,
                         .stop_signal = SIGUSR1,  // a launcher's SIGTERM is a SIGKILL soon after
                         .is_overdue = start.is_overdue});
  MEGACPP_REQUIRE(end.was_started, E1007,
                  {.where = "--launcher",
                   .got = end.output,
                   .wanted = "a program",
                   .next = "install it, or name it as a shell would find it"});
  return end.status;
}

launch::RestartOptions restart_options(const RunFlags& flags, const base::StopRequest& stop) {
  launch::RestartOptions options{
      .launcher = words_in(flags.launcher, "--launcher"), .program = sweep::this_program(), .restarts = flags.restarts};
  options.should_stop = [&stop] { return stop.has_come(); };
  options.pause = [&stop](std::chrono::seconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!stop.has_come() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  MEGACPP_REQUIRE(!flags.hosts.empty() || flags.probe.empty(), E1007,
                  {.where = "--probe",
                   .got = flags.probe + ", without --hosts",
                   .wanted = "the hosts that it asks",
                   .next = "for example: --hosts node7:4,node8:4, or leave --probe out"});
  if (flags.hosts.empty()) return options;
  options.pool.hosts = launch::hosts_in(flags.hosts);
  launch::Probe probe = launch::probe_of(words_in(flags.probe.empty() ? kUsualProbe : flags.probe, "--probe"));
  probe.should_stop = options.should_stop;
  options.pool.answers = [probe](const std::string& host) { return launch::ask_host(probe, host); };
  return options;
}

int run_supervised(const RunFlags& flags) {
  launch::require_alone("megacpp run", "run: megacpp run --launcher 'mpirun -n 4' -- train ...");
  const launch::SupervisedTraining training = launch::supervised_training(flags.words);
  const base::StopRequest stop;
  const launch::RestartOptions options = restart_options(flags, stop);
  return launch::run_with_restarts(
      training, options, [&stop](const launch::Start& start) { return run_start(start, stop); }, print_line);
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
        declare_number(app, {.name = "--restarts", .range = schema::between(0, 1'000'000), .help = "at most so many"},
                       flags->restarts)
            ->default_str(std::to_string(flags->restarts));
        app.add_option("--launcher", flags->launcher,
                       "what starts the processes of the training, with its own flags, separated by spaces")
            ->type_name("WORDS");
        app.add_option("--hosts", flags->hosts,
                       "where to start processes, and how many on each; those that do not answer are left out, and "
                       "the layout is one that fits the rest. In --launcher {hosts} and {processes} stand for them")
            ->type_name("NAME:N,...");
        app.add_option(
               "--probe", flags->probe,
               std::string("succeeds within 10 s for a host, {host}, that can be used; without: ") + kUsualProbe)
            ->type_name("WORDS");
        app.add_option("training", flags->words, "train with its recipe and flags, behind --")
            ->required()
            ->type_name("WORDS");
        return [flags] { return run_supervised(*flags); };
      }};
}

}  // namespace megacpp::cli
