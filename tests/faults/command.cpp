// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/command.h"

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::faults {

namespace {

/// Whether a folder of PATH has the program.
bool is_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string why_no_processes() {
  if (!is_on_path("mpirun")) return "no mpirun is installed";
  const std::filesystem::path library = std::filesystem::path(MEGACPP_PROGRAM).parent_path() / "libmegacpp_mpi.so";
  return std::filesystem::exists(library) ? "" : "megacpp was built without MPI";
}

}  // namespace

#define MEGACPP_TINY_RECIPE MEGACPP_SOURCE_DIR "/recipes/nam52-tiny.yaml "
#define MEGACPP_SMALL_MODEL MEGACPP_SOURCE_DIR "/tests/faults/small.yaml "
#define MEGACPP_TINY  \
  MEGACPP_TINY_RECIPE \
  "--set model.depth=2 --set train.sequence=32 --set train.batch=2 --set train.log_every=1 --set train.threads=2 "

const std::vector<Command>& all_commands() {
  static const std::vector<Command> table = {
      {"train", "train " MEGACPP_TINY "--set train.steps=6"},
      {"train-json", "train " MEGACPP_TINY "--set train.steps=6 --json", true},
      {"train-trace", "train " MEGACPP_TINY "--set train.steps=3 --trace {case}/trace.json"},
      {"train-chips", "train " MEGACPP_TINY "--set train.steps=3 --set layout.data_parallel=2 --set train.threads=1"},
      {"train-saves", "train " MEGACPP_TINY "--set train.steps=4 --set checkpoint.every=1 --run-dir {case}/run"},
      {.name = "train-stopped",
       .words = "train " MEGACPP_TINY "--set train.steps=1000000 --run-dir {case}/run",
       .until_stopped = true},
      {"train-events", "train " MEGACPP_TINY "--set train.steps=4 --tensorboard --run-dir {case}/run"},
      {"train-blend", "train " MEGACPP_TINY "--set train.steps=6 --set data.blend=[{shared}/long]"},
      {"train-from", "train " MEGACPP_TINY "--set train.steps=2 --from {shared}/runs/first"},
      {"plan", "plan " MEGACPP_TINY},
      {"plan-json", "plan " MEGACPP_TINY "--json", true},
      {"plan-page", "plan " MEGACPP_TINY "--html {case}/page.html"},
      {"runs", "runs list {shared}/runs"},
      {"runs-export", "runs export {shared}/runs/first --csv {case}/log.csv --tensorboard {case}/events"},
      {"runs-json", "runs show {shared}/runs/first --json", true},
      {"receipt", "receipt show {shared}/runs/first"},
      {"receipt-json", "receipt show {shared}/runs/first --json", true},
      {"flight", "flight show {shared}/runs/failed"},
      {"run", "run --restarts 0 -- train " MEGACPP_TINY "--set train.steps=3 --run-dir {case}/run"},
      {.name = "run-processes",
       .words = "run --restarts 0 --launcher 'mpirun --oversubscribe -n 2' -- train " MEGACPP_TINY
                "--set train.steps=3 --set layout.data_parallel=2 --set train.threads=1 --run-dir {case}/run",
       .has_launcher = true,
       .why_not = why_no_processes},
      {"checkpoint", "checkpoint verify {shared}/runs/first"},
      {"checkpoint-json", "checkpoint show {shared}/runs/first --json", true},
      {"checkpoint-convert", "checkpoint convert {shared}/runs/first --to {case}/converted --type bf16"},
      {"report", "report {shared}/runs/first --out {case}/page.html"},
      {"report-json", "report {shared}/runs/first --out {case}/page.html --json", true},
      {"compare", "compare {shared}/runs/first {shared}/runs/second"},
      {"sweep", "sweep " MEGACPP_TINY "--set train.steps=2 --axis train.seed=1,2 --repeats 1 --dir {case}/sweep"},
      {"ceilings", "ceilings --runs {shared}/runs --json", true},
      {.name = "serve", .words = "serve --port 0 --runs {shared}/runs", .until_stopped = true},
      {"compile", "compile " MEGACPP_TINY "--dump-dir {case}/dump"},
      {"compile-json", "compile " MEGACPP_TINY "--json", true},
      {"explain", "explain " MEGACPP_TINY},
      {"fit", "fit " MEGACPP_TINY "--hardware host:2"},
      {"parity", "parity " MEGACPP_SOURCE_DIR "/tests/golden/models/llama_mqa.safetensors"},
      {"data-tokenize", "data tokenize " MEGACPP_TINY_RECIPE "--out {case}/tokens --threads 2"},
      {"data-tokenize-text", "data tokenize {shared}/page.html --out {case}/tokens --threads 2"},
      {"data-show-long", "data show {shared}/long --json", true},
      {"data-show", "data show {shared}/tokens --json", true},
      {"data-train", "data train-tokenizer " MEGACPP_TINY_RECIPE "--out {case}/tokenizer.json --vocab 260"},
      {"export", "export " MEGACPP_SMALL_MODEL "{case}/exported"},
      {"generate", "generate " MEGACPP_SMALL_MODEL "--prompt main --max-tokens 8"},
      {"generate-json", "generate " MEGACPP_SMALL_MODEL "--ids 1 --max-tokens 8 --json", true},
      {"generate-run", "generate {shared}/runs/first --ids 1 --max-tokens 4 --json", true},
      {"eval", "eval " MEGACPP_SMALL_MODEL "--text " MEGACPP_TINY_RECIPE},
      {"catalog", "catalog list --json", true},
      {"ops", "ops"},
      {"keys-json", "keys --json", true},
      {"hw", "hw"},
      {"plugins", "plugins list"},
      {"doctor-json", "doctor --only libraries --only machine --only flags --only allocation --json", true},
  };
  return table;
}

const std::vector<Preparation>& preparations() {
  static const std::vector<Preparation> lines = {
      {"hw measure"},
      {std::string("train " MEGACPP_TINY
                   "--set train.steps=2 --set checkpoint.every=1 --run-dir {shared}/runs/first ") +
       "--set name=" + kRememberedModel},
      {"train --no-catalog " MEGACPP_TINY "--set train.steps=2 --set train.seed=2 --run-dir {shared}/runs/second"},
      // Memory that runs out after the ladder's steps leaves a record of calls.
      {"train --no-catalog " MEGACPP_TINY "--set train.steps=8 --set layout.data_parallel=2 --set train.threads=1 "
       "--set 'hardware.fail_allocation=[chip 1 step 6]' --run-dir {shared}/runs/failed",
       base::exit_status(base::ErrorClass::does_not_fit)},
      {"data tokenize " MEGACPP_TINY_RECIPE "--out {shared}/tokens"},
      {"report {shared}/runs/first --out {shared}/page.html"},
      {"data tokenize {shared}/page.html --out {shared}/long"},
  };
  return lines;
}

#undef MEGACPP_TINY
#undef MEGACPP_SMALL_MODEL
#undef MEGACPP_TINY_RECIPE

std::string with_folders(std::string words, const Folders& folders) {
  for (const auto& [name, folder] : {std::pair<std::string_view, const std::string&>{"{case}", folders.own},
                                     std::pair<std::string_view, const std::string&>{"{shared}", folders.shared}})
    for (size_t at = words.find(name); at != std::string::npos; at = words.find(name, at + folder.size()))
      words.replace(at, name.size(), folder);
  return words;
}

}  // namespace megacpp::faults
