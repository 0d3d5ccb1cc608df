// SPDX-License-Identifier: Apache-2.0
// The record a run leaves, however it ends: what ran, on what, how fast it was once it was warm, what it needed, and
// whether its numbers may be compared with another run's. Plain values, so that later versions, other tools and people
// can read what an earlier one wrote. What is not known is absent (nothing, or an empty text or list), never 0.
// Names and documentation of the members as JSON stand in fields.h, and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/words.h"
#include "megacpp/hardware/catalog/oom_report.h"

namespace megacpp::receipt {

/// Of the JSON. A member more keeps it: readers ignore what they do not know. Another meaning needs the next one.
inline constexpr int64_t kSchemaVersion = 1;

// ---- How it ended

enum class EndingKind : uint8_t {
  running,        // not yet; of a process that is gone it is killed
  finished,       // all steps were made
  interrupted,    // stopped on request, in good order
  failed,         // an error ended it
  out_of_memory,  // memory that no rung of the ladder could answer for
  killed,         // the process ended without a word
};
constexpr auto words_of(EndingKind /*kind*/) {
  return std::to_array<base::Word<EndingKind>>({{EndingKind::running, "running"},
                                                {EndingKind::finished, "finished"},
                                                {EndingKind::interrupted, "interrupted"},
                                                {EndingKind::failed, "failed"},
                                                {EndingKind::out_of_memory, "out of memory"},
                                                {EndingKind::killed, "killed"}});
}

/// The error that ended a run, as its user read it.
struct Failure {
  std::string code = {};  // "E2004"
  std::string where = {};
  std::string got = {};
  std::string wanted = {};
  std::string next = {};
  // Of memory that ran out; else empty.
  std::string oom_class = {};  // "runtime allocation"
  std::string phase = {};      // "loading"
  std::string chip = {};       // "chip 3: data 1 on host tpu-7"
  std::optional<int64_t> step = {};
  std::optional<int64_t> wanted_bytes = {};
  std::optional<int64_t> limit_bytes = {};
  bool is_injected = false;
};

struct Ending {
  EndingKind kind = EndingKind::running;
  std::string started_at = {};  // UTC: "2026-11-15T17:03:21Z"
  std::string ended_at = {};    // empty: it goes on, or nobody saw it end
  int64_t first_step = 0;       // steps that were done before, where it went on with a checkpoint
  int64_t steps = 0;            // done in all, those before included; of a killed run, as far as they were logged
  int64_t requested_steps = 0;
  std::optional<Failure> failure = {};
};

// ---- What ran: two runs that differ here in one thing measure that thing

struct Hardware {
  std::string name = {};      // as signatures have it, with limits and faults: "host:4 limit 512MiB", "v6e:16x16"
  std::string topology = {};  // the slice: "host:4", "v6e:16x16"
  std::optional<int64_t> chips = {};
  std::string mesh = {};                // "data=2 model=4"; empty: one chip without axes
  std::string processor = {};           // where chips are virtual ones of a machine
  std::optional<int64_t> threads = {};  // of each such chip
  std::string chip = {};                // what each of them is: "host", "v6e"
};

struct Model {
  std::string name = {};
  std::string family = {};  // "dense", "sparse" (experts), "hybrid" (Mamba-2 or recurrent blocks)
  std::string pattern = {};
  int64_t depth = 0;
  int64_t hidden = 0;
  int64_t vocab = 0;
  std::optional<int64_t> parameters = {};
  std::string hash = {};  // of the whole model section: one name may stand for several models
};

struct BatchShape {
  int64_t batch = 0;     // sequences of a micro-step, all chips together
  int64_t sequence = 0;  // tokens
  int64_t micro_steps = 0;
  int64_t tokens = 0;     // of a step
  std::string data = {};  // what is trained on, in words
};

/// How the program is made and what runs it.
struct Program {
  std::string backend = {};    // "cpu"
  std::string lane = {};       // "xla v6e placement=megacpp"
  std::string path = {};       // what ran the programs, in its own words; empty: it was not loaded
  std::string precision = {};  // "bf16"
  std::string layout = {};     // "policy=spmd data_parallel=2 zero=1"
  std::string recompute = {};  // "A=none M=auto:full": what planning chose stands behind kAutoChoice
  std::string optimizer = {};
  std::string overlap = {};               // "prefetch 1"
  std::string buckets = {};               // "as the policy has them", "40000000 bytes"
  std::string features = {};              // of the model and the backend, as signatures have them
  std::vector<std::string> flags = {};    // of a plugin, as given
  std::vector<std::string> without = {};  // passes that were left out
  std::vector<std::string> watched = {};  // what looked into its steps: "profile"
};

struct Versions {
  std::string code = {};      // "0.1.0+1f2e3d4c5b6a7988"
  std::string platform = {};  // plugin, its version and content, driver; empty: the backend is part of the code
};

/// Between a letter and the level of recompute that planning chose for it.
inline constexpr const char* kAutoChoice = "auto:";

struct Header {
  Hardware hardware = {};
  Model model = {};
  BatchShape batch = {};
  Program program = {};
  Versions versions = {};
};

/// One thing of the environment that launches ask for, as it was found.
struct LineageItem {
  std::string name = {};        // "sqlite"
  std::string documented = {};  // in the lock file; empty: not there
  std::string live = {};        // empty: not found
  std::string state = {};       // "ok", "drift", "missing"
};

/// The documented against the live environment. Without a lock file nothing is documented.
struct Lineage {
  std::string lock_file = {};  // empty: there is none
  std::string unread = {};     // why nothing could be compared with it, with a code; empty: it was
  std::vector<LineageItem> items = {};
};

// ---- Time

/// Steps that follow each other.
struct Phase {
  int64_t first_step = 0;
  int64_t steps = 0;
  int64_t tokens = 0;
  double seconds = 0;  // without saving checkpoints

  double step_seconds() const { return seconds / static_cast<double>(steps); }
  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

/// Seconds of a step in the steady window: one sample for each run of `steps_each` steps, in order, and the mean of
/// these. Devices that are not waited for between logs are timed from log to log. A last run of fewer steps has none.
struct StepSamples {
  int64_t first_step = 0;
  int64_t steps_each = 0;
  std::vector<double> seconds = {};
};

/// Of the samples.
struct Spread {
  double mean = 0;
  double deviation = 0;  // standard, of one sample
  double least = 0;
  double lower_quartile = 0;
  double median = 0;
  double upper_quartile = 0;
  double most = 0;

  /// The middle half of the samples over the median.
  double relative() const { return (upper_quartile - lower_quartile) / median; }
};

/// Where the time of a steady step went. The parts are means since the first step, which is all that is measured;
/// `other` is what they leave of the steady step.
struct Parts {
  double arithmetic = 0;
  double memory = 0;
  double links = 0;
  double bubble = 0;
  double other = 0;
};

/// Of the time from the command to the first step.
struct StartPart {
  std::string name = {};  // "weights"
  double seconds = 0;
  std::string note = {};  // "31 cached"; may be empty
};

/// Compiling and the first step are cold, the warm-up is neither, and steady is what comparisons and MFU are made of.
struct Times {
  std::optional<double> compile_seconds = {};          // our own passes
  std::optional<double> verify_seconds = {};           // of what they left
  std::optional<double> backend_compile_seconds = {};  // a plugin's compiler; absent: there is none, or it is not known
  std::string compile = {};                            // "cold", "cached", "own passes alone"; empty: not known
  std::optional<double> load_seconds = {};             // from the plan to weights in place, compiling included
  std::vector<StartPart> start = {};                   // from the command to the first step; empty: not known
  std::optional<Phase> first = {};                     // the first step, with those up to its log
  std::optional<Phase> warm_up = {};
  std::optional<Phase> steady = {};
  StepSamples samples = {};
  std::optional<Spread> spread = {};
  std::optional<Parts> parts = {};
  std::optional<double> predicted_step_seconds = {};
  std::optional<double> saving_seconds = {};  // that steps waited for checkpoints, in no phase
  std::optional<int64_t> data_stalls = {};    // in the steady window: waits for data that was not read in time
};

struct Mfu {
  std::optional<double> value = {};       // of the steady window, 0 to 1
  double model_flops = 0;                 // of a step
  std::optional<double> peak_flops = {};  // of a chip, per second
  std::string peak = {};                  // which, and where the number is from; why there is none
  std::string formula = {};
};

struct Regime {
  std::string name = {};  // as fit::regime_name
  std::string because = {};
};

struct Losses {
  std::optional<double> first = {};
  std::optional<double> last = {};
};

// ---- Counters

struct Count {
  std::string what = {};
  int64_t count = 0;
};

struct Transfer {
  int64_t count = 0;
  int64_t bytes = 0;
};

/// As runtime::Counters, of the whole run.
struct DeviceCounters {
  std::vector<Count> compiles = {};  // by cause
  int64_t cache_hits = 0;
  int64_t executions = 0;
  int64_t host_syncs = 0;
  Transfer host_to_device = {};
  Transfer device_to_host = {};
};

/// What should be 0 in the steady window.
struct SteadyCounters {
  int64_t programs_made = 0;  // compiled, or taken from a cache
  int64_t host_syncs = 0;     // beside those that fetch metrics, save, or are the path's own
};

struct Fallback {
  std::string op = {};
  std::string reason = {};
  int64_t count = 0;  // nodes that run so
};

struct Counters {
  std::optional<DeviceCounters> devices = {};  // absent: the run was not there to be asked
  std::optional<SteadyCounters> steady = {};   // absent without a steady window
  std::vector<Fallback> fallbacks = {};
  /// Times that a core was slowed down since step 0; absent: the system is silent, or chips are no cores of it.
  std::optional<int64_t> throttled = {};
};

// ---- Memory, exchange, experts, ladder

struct MemoryItem {
  std::string role = {};    // "optimizer"
  std::string family = {};  // letter of the block; empty: outside blocks
  int64_t bytes = 0;        // at the peak
};

/// Chips that are planned alike.
struct ChipGroup {
  int64_t chip = 0;  // the first of them
  int64_t chips = 0;
  std::string place = {};  // "chip 3: data 1, model 1"
  int64_t planned_bytes = 0;
  int64_t needed_bytes = 0;  // as the catalog corrects it, with the program's code
  int64_t state_bytes = 0;
  std::optional<int64_t> limit_bytes = {};
  std::vector<MemoryItem> items = {};  // padding left out
};

/// A chip of the process that wrote the receipt.
struct ChipPeak {
  int64_t chip = 0;
  std::string place = {};
  std::optional<int64_t> planned_bytes = {};
  std::optional<int64_t> measured_bytes = {};
  std::optional<int64_t> limit_bytes = {};
  int64_t planned_host_bytes = 0;  // in pinned memory of its host; 0: nothing is kept there
  int64_t measured_host_bytes = 0;
};

/// Planned bytes of a family along a step: its nodes in equal parts, each where most bytes are alive; padding left out.
struct FamilyMemory {
  std::string family = {};  // letter of the block; empty: outside blocks
  std::vector<int64_t> bytes = {};
};
/// Planned beside the chips, of the host that needs most; nothing where chips are in their host's memory.
struct HostBytes {
  int64_t offloaded_bytes = 0;  // in pinned memory
  int64_t snapshot_bytes = 0;   // that checkpoints are written from
  std::optional<int64_t> limit_bytes = {};
};
struct Memory {
  std::vector<ChipGroup> planned = {};  // least free bytes first
  HostBytes host = {};
  std::vector<FamilyMemory> along_step = {};  // of the first of these; empty: not known
  std::vector<ChipPeak> measured = {};        // the same; empty: nothing was measured
};

/// What a chip of a pipeline stage sends in one step.
struct Collective {
  int64_t stage = 0;
  std::string axes = {};  // "data+expert"
  std::string kind = {};  // "all_gather"
  int64_t calls = 0;
  int64_t bytes = 0;
};

/// Requests for the experts of one block, over the logged steps of the steady window; of all, without one.
struct ExpertLoad {
  std::string block = {};          // "block03"
  std::vector<double> share = {};  // [experts]; they sum to one
  double imbalance = 0;            // the busiest over the mean
  double dropped = 0;              // requests in these steps
};

struct Ladder {
  int64_t rung = 0;          // it ran at; 0: as requested
  std::string changes = {};  // "train.batch=4 train.micro_steps=2"
  bool changes_experiment = false;
  std::vector<catalog::Reduction> tried = {};
};

// ---- What follows from all of it

/// Why a run may not be compared.
struct Reason {
  std::string name = {};      // of a rule in verdict.cpp: "ended early"
  std::string sentence = {};  // "The run was interrupted after 14 of 150 steps."
};

struct Verdict {
  std::vector<Reason> reasons = {};

  bool is_comparable() const { return reasons.empty(); }
};

/// The five questions every receipt answers, in words.
struct Answers {
  std::string topology = {};  // which topology?
  std::string compile = {};   // was compiling amortised, or is it cold?
  std::string workload = {};  // which sequence length and workload family?
  std::string path = {};      // did it stay on the intended path, without fallback?
  std::string target = {};    // did a gain survive on the target shape?
};

struct Receipt {
  int64_t schema = kSchemaVersion;
  std::string run = {};  // name of the run directory
  Ending ending = {};
  Answers answers = {};
  Verdict verdict = {};
  Header header = {};
  std::string recipe = {};  // that ran, as YAML: every key; auto where planning chose, which the header resolves
  Lineage lineage = {};
  Times times = {};
  Mfu mfu = {};
  Regime regime = {};
  Losses losses = {};
  std::string repeats = {};  // what another run must have in common to compute the same bits; empty: not known
  Counters counters = {};
  Memory memory = {};
  std::optional<std::vector<Collective>> collectives = {};  // absent: the backend's compiler places them
  std::vector<ExpertLoad> experts = {};                     // empty: none, or not measured
  Ladder ladder = {};
};

}  // namespace megacpp::receipt
