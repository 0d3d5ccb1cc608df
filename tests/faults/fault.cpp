// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault.h"

#include <signal.h>

#include <cerrno>
#include <cstdlib>

namespace megacpp::faults {
namespace {

constexpr std::array<int, 3> kStops = {SIGINT, SIGTERM, SIGHUP};
constexpr int64_t kLastInstant = 400;  // milliseconds; the longest command takes about that long

std::string text(int64_t number) { return std::to_string(number); }

// Early ones more often: most commands are short.
std::chrono::milliseconds instant(Draw& draw) {
  const int64_t last = draw.between(1, kLastInstant);
  return std::chrono::milliseconds(draw.between(0, last));
}

Injection stop_once(Draw& draw, const std::string&) {
  return {.signals = {draw.one_of(kStops)}, .pause = instant(draw)};
}

Injection stop_twice(Draw& draw, const std::string&) {
  return {.signals = {draw.one_of(kStops), draw.one_of(kStops)}, .pause = instant(draw)};
}

Injection kill_it(Draw& draw, const std::string&) { return {.signals = {SIGKILL}, .pause = instant(draw)}; }

Injection full_stdout(Draw&, const std::string&) { return {.after = ">/dev/full", .hides_stdout = true}; }
Injection full_stderr(Draw&, const std::string&) { return {.after = "2>/dev/full", .hides_stderr = true}; }
Injection closed_stdout(Draw&, const std::string&) { return {.after = ">&-", .hides_stdout = true}; }

// Blocks of 512 bytes, for every file that the command writes, its output included; messages fit in the least.
Injection small_files(Draw& draw, const std::string&) {
  return {
      .before = "ulimit -f " + text(draw.between(0, 1) == 0 ? draw.between(8, 16) : draw.between(16, 400)) + "; exec",
      .hides_stdout = true};
}

Injection small_disk(Draw& draw, const std::string& folder) {
  return {.before = "exec unshare -m sh -c 'mount -t tmpfs -o size=" + text(4 * draw.between(1, 40)) + "k none " +
                    folder + " && exec \"$@\"' sh"};
}

Injection read_only_disk(Draw&, const std::string& folder) {
  return {.before = "exec unshare -m sh -c 'mount -t tmpfs -o ro none " + folder + " && exec \"$@\"' sh"};
}

bool mounts() { return std::system("unshare -m mount -t tmpfs none /mnt >/dev/null 2>&1") == 0; }

Injection failing_write(Draw& draw, const std::string&) {
  static constexpr std::array<int, 4> kErrors = {ENOSPC, EIO, EDQUOT, EROFS};
  const std::string kind = draw.between(0, 4) == 0 ? "short" : text(draw.one_of(kErrors));
  return {.before = "exec env MEGACPP_FAILING_WRITE=" + kind + ":" + text(draw.between(0, 60)) +
                    " LD_PRELOAD=" MEGACPP_FAILING_WRITE_LIBRARY,
          .hides_stdout = true};
}

Injection little_address_space(Draw& draw, const std::string&) {
  return {.before = "ulimit -v " + text(draw.between(100, 800) * 1000) + "; exec"};
}

Injection few_open_files(Draw& draw, const std::string&) {
  return {.before = "ulimit -n " + text(draw.between(4, 16)) + "; exec"};
}

Injection at_once(Draw& draw, const std::string&) { return {.launches = static_cast<int>(draw.between(2, 4))}; }

Injection killed_at_once(Draw& draw, const std::string& folder) {
  Injection injection = kill_it(draw, folder);
  injection.launches = 2;
  return injection;
}

}  // namespace

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> table = {
      {"stop", "SIGINT, SIGTERM or SIGHUP at a random instant", stop_once},
      {"stop-twice", "two of them, one behind the other", stop_twice},
      {"kill", "kill -9 at a random instant", kill_it},
      {"full-stdout", "stdout on a full disk", full_stdout},
      {"full-stderr", "stderr on a full disk", full_stderr},
      {"closed-stdout", "stdout closed", closed_stdout},
      {"small-files", "ulimit -f: files may not grow", small_files},
      {"small-disk", "the folder of catalog and outputs on a tmpfs of 4 to 160 KiB", small_disk, mounts},
      {"read-only-disk", "that folder read-only", read_only_disk, mounts},
      {"failing-write", "an interposed write that fails or writes one byte, from a random call on", failing_write},
      {"address-space", "ulimit -v: 100 to 800 MB", little_address_space},
      {"open-files", "ulimit -n: 4 to 16 files", few_open_files},
      {"at-once", "two to four launches on one catalog", at_once},
      {"killed-at-once", "two launches on one catalog, killed", killed_at_once},
  };
  return table;
}

const std::vector<Command>& all_commands() {
#define MEGACPP_TINY                                                                                                  \
  MEGACPP_SOURCE_DIR                                                                                                  \
  "/recipes/nam52-tiny.yaml --set model.depth=2 --set train.sequence=32 --set train.batch=2 --set train.log_every=1 " \
  "--set train.threads=2 "
  static const std::vector<Command> table = {
      {"train", "train " MEGACPP_TINY "--set train.steps=6"},
      {"train-json", "train " MEGACPP_TINY "--set train.steps=6 --json", true},
      {"train-trace", "train " MEGACPP_TINY "--set train.steps=3 --trace @/trace.json"},
      {"train-chips", "train " MEGACPP_TINY "--set train.steps=3 --set layout.data_parallel=2 --set train.threads=1"},
      {"plan", "plan " MEGACPP_TINY},
      {"plan-json", "plan " MEGACPP_TINY "--json", true},
      {"plan-page", "plan " MEGACPP_TINY "--html @/page.html"},
      {"compile", "compile " MEGACPP_TINY "--dump-dir @/dump"},
      {"compile-json", "compile " MEGACPP_TINY "--json", true},
      {"explain", "explain " MEGACPP_TINY},
      {"fit", "fit " MEGACPP_TINY "--hardware host:2"},
      {"parity", "parity " MEGACPP_SOURCE_DIR "/tests/golden/models/llama_mqa.safetensors"},
      {"catalog", "catalog list --json", true},
      {"hw", "hw"},
      {"keys-json", "keys --json", true},
      {"ops", "ops"},
  };
#undef MEGACPP_TINY
  return table;
}

}  // namespace megacpp::faults
