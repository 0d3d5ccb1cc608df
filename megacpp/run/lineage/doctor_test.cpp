// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/lineage/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <set>
#include <thread>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/plugins/plugin_fetch.h"
#include "megacpp/run/lineage/check.h"
#include "megacpp/run/lineage/probes/disk.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::lineage {
namespace {

using base::Code;
using testing_support::problem_of;

Subject some_subject() { return {.code_version = "0.1.0+feed", .runs = "/tmp"}; }

Probe pinned(const char* name, const std::string& answer, Pins pins = Pins::at_launch) {
  return {.name = name,
          .group = "letters",
          .pins = pins,
          .ask = [answer](const Subject&) { return answer; },
          .fix = [](const std::string& documented) { return "make it " + documented; }};
}

Finding only_finding(const Probe& probe, const Lock* lock = nullptr) {
  const std::vector<Probe> probes = {probe};
  const std::vector<Finding> findings =
      examine(some_subject(), {.groups = {probe.group}, .lock = lock, .probes = probes});
  EXPECT_EQ(findings.size(), 1u);
  return findings.at(0);
}

TEST(DoctorTest, EveryProbeIsWhole) {
  std::set<std::string> names;
  for (const Probe& probe : all_probes()) {
    EXPECT_TRUE(names.insert(probe.name).second) << probe.name;
    EXPECT_TRUE(bool(probe.ask)) << probe.name;
    EXPECT_EQ(bool(probe.fix), probe.pins != Pins::nothing) << probe.name;
  }
  EXPECT_EQ(probe_groups(), (std::vector<std::string>{"libraries", "machine", "gpus", "plugins", "flags", "disk",
                                                      "allocation", "collective", "compile"}));
}

TEST(DoctorTest, LibrariesAnswerWithTheirVersions) {
  for (const Finding& finding : examine(some_subject(), {.groups = {"libraries"}})) {
    EXPECT_EQ(finding.status, Status::ok) << finding.name << ": " << finding.live;
    if (finding.name == "sqlite" || finding.name == "openblas" || finding.name == "pcre2" || finding.name == "glibc" ||
        finding.name == "archive" || finding.name == "utf8proc" || finding.name == "xxhash") {
      EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(finding.live[0]))) << finding.name << ": " << finding.live;
      EXPECT_NE(finding.live.find('.'), std::string::npos) << finding.name << ": " << finding.live;
    }
  }
}

TEST(DoctorTest, WhatIsDocumentedIsComparedAndTheRestIsRight) {
  const Lock lock{.architecture = "x86_64", .facts = {{"a", "1"}, {"b", "1"}, {"c", "1"}, {"old", "7"}}};
  const std::vector<Probe> probes = {pinned("a", "1"), pinned("b", "2"), pinned("c", kNone), pinned("d", "4"),
                                     pinned("e", "5", Pins::nothing)};
  const std::vector<Finding> findings = examine(some_subject(), {.lock = &lock, .probes = probes});
  ASSERT_EQ(findings.size(), 6u);
  std::vector<Status> found;
  for (const Finding& finding : findings) found.push_back(finding.status);
  EXPECT_EQ(found,
            (std::vector<Status>{Status::ok, Status::drift, Status::missing, Status::ok, Status::ok, Status::missing}));
  EXPECT_EQ(findings[1].fix, "make it 1");
  EXPECT_EQ(findings[1].documented, "1");
  EXPECT_FALSE(findings[3].documented.has_value());
  EXPECT_EQ(findings[5].name, "old");
  const std::optional<base::Error> error = finding_error(findings);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), Code::E3401);
  EXPECT_EQ(error->exit_status(), 1);
  EXPECT_EQ(error->problem().where, "b (drift)");
  EXPECT_EQ(error->problem().got, "2; 2 more of 6 are not ok");
  EXPECT_EQ(error->problem().next, "make it 1");
  for (const Finding& finding : examine(some_subject(), {.probes = probes})) EXPECT_EQ(finding.status, Status::ok);
}

TEST(DoctorTest, AProbeThatFailsCrashesOrHangsIsAFinding) {
  using namespace std::chrono_literals;
  Probe probe{.name = "x", .group = "letters", .ask = [](const Subject&) -> std::string {
                base::raise(Code::E3001, {.where = "/disk", .got = "full", .wanted = "room", .next = "make room"});
              }};
  Finding finding = only_finding(probe);
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_EQ(finding.live, "E3001 /disk: full");
  EXPECT_EQ(finding.fix, "make room");
  probe.time_limit = 10s;
  probe.ask = [](const Subject&) -> std::string {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    return "not reached";
  };
  finding = only_finding(probe);
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_NE(finding.live.find("SIGSEGV"), std::string::npos) << finding.live;
  probe.time_limit = 100ms;
  probe.ask = [](const Subject&) -> std::string {
    std::this_thread::sleep_for(60s);
    return "too late";
  };
  finding = only_finding(probe);
  EXPECT_EQ(finding.status, Status::missing);
  EXPECT_NE(finding.live.find("no answer within 100 ms"), std::string::npos) << finding.live;
}

TEST(DoctorTest, AnUnknownGroupGetsTheNearest) {
  const base::Problem problem = problem_of(Code::E1007, [] { examine(some_subject(), {.groups = {"plugin"}}); });
  EXPECT_EQ(problem.next, "did you mean 'plugins'?");
}

TEST(DoctorTest, MemoryAndCollectivesWorkHere) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a forked process";
#endif
  const std::vector<Finding> findings = examine(some_subject(), {.groups = {"allocation", "collective"}});
  ASSERT_EQ(findings.size(), 1 + collectives::all_transports().size());
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.status, Status::ok) << finding.name << ": " << finding.live;
    if (finding.group == "collective") {
      EXPECT_EQ(finding.live, "all_reduce over 4 chips is their sum");
    }
  }
}

TEST(DoctorTest, AStepRunsOnOurOwnBackend) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a forked process";
#endif
  const auto probe = std::ranges::find(all_probes(), "compile.cpu", &Probe::name);
  ASSERT_NE(probe, all_probes().end());
  const Finding finding = only_finding(*probe);
  EXPECT_EQ(finding.status, Status::ok) << finding.live;
  EXPECT_NE(finding.live.find("loss 5."), std::string::npos) << finding.live;
}

TEST(DoctorTest, ADeviceThatIsNotHereIsNotTried) {
  const testing_support::TemporaryFolder root;
  Subject subject = some_subject();
  subject.surroundings.root = root.path();
  for (const char* name : {"compile.xla.cuda", "compile.xla.tpu"}) {
    const auto probe = std::ranges::find(all_probes(), name, &Probe::name);
    ASSERT_NE(probe, all_probes().end());
    const std::string answer = probe->ask(subject);
    EXPECT_TRUE(answer.starts_with("not tried: ")) << answer;
  }
}

TEST(DoctorTest, ALowDiskIsE3001) {
  EXPECT_EQ(room_text("/runs", int64_t{5} << 30), "5.0 GiB free");
  EXPECT_EQ(problem_of(Code::E3001, [] { room_text("/runs", kLeastFreeBytes - 1); }).where, "/runs");
}

// A machine made of files.
class OtherMachine {
 public:
  OtherMachine() {
    write("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
    write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n");
    write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
    write("proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: \t\t NVIDIA H200\n");
    write("home/.cache/megacpp/plugins/cpu/VERSION", "package xla-cpu-pjrt\nversion 1.2.3\n");
    write("home/.cache/megacpp/plugins/cpu/xla_cpu_pjrt.so", "a library");
    subject.surroundings.root = folder_.path();
    subject.surroundings.variables = {{"HOME", folder_ / "home"}, {"XLA_FLAGS", "--xla_dump_to=/tmp"}};
  }

  void write(const std::string& name, const std::string& text) const {
    base::make_folder((folder_ / name).parent_path());
    base::write_file_atomically(folder_ / name, text);
  }
  std::filesystem::path at(const std::string& name) const { return folder_ / name; }

  Subject subject = some_subject();

 private:
  testing_support::TemporaryFolder folder_;
};

TEST(DoctorTest, FactsAreReadFromTheSystemsFiles) {
  const OtherMachine machine;
  const std::vector<Finding> findings = examine(machine.subject, {.groups = {"machine", "gpus", "plugins", "flags"}});
  const auto live = [&](const char* name) {
    const auto at = std::ranges::find(findings, name, &Finding::name);
    return at == findings.end() ? "no such probe" : at->live;
  };
  EXPECT_EQ(live("megacpp"), "0.1.0+feed");
  EXPECT_EQ(live("system"), "Debian GNU/Linux 12 (bookworm)");
  EXPECT_NE(live("build").find("optimised"), std::string::npos) << live("build");
  EXPECT_EQ(live("memory"), "16.0 GiB");
  EXPECT_EQ(live("gpus"), "2 x NVIDIA H200");
  EXPECT_EQ(live("gpu.driver"), "550.54.15");
  EXPECT_EQ(live("plugin.cpu"), "xla-cpu-pjrt 1.2.3");
  EXPECT_EQ(live("plugin.tpu"), kNone);
  EXPECT_EQ(live("plugin.tpu.build"), kNone);
  EXPECT_EQ(live("plugin.cpu.hash").size(), 32u);
  EXPECT_EQ(live("env.XLA_FLAGS"), "--xla_dump_to=/tmp");
  EXPECT_EQ(live("env.LD_PRELOAD"), kNone);
}

Lock lock_without_failures(const Subject& subject) {
  Lock lock{.architecture = runtime::plugins::this_machine(), .facts = {}};
  for (const Probe& probe : all_probes())
    if (probe.pins != Pins::nothing) lock.facts.push_back({.name = probe.name, .value = answer_of(probe, subject)});
  return lock;
}

TEST(DoctorTest, ALockFileHasWhatProbesPinAndNothingOfTheMoment) {
  const OtherMachine machine;
  const Lock lock = lock_without_failures(machine.subject);
  std::vector<Finding> findings;
  for (const Fact& fact : lock.facts) findings.push_back({.name = fact.name, .live = fact.value});
  EXPECT_EQ(lock_of(findings), lock);
  EXPECT_EQ(find_value(lock.facts, "disk.runs"), nullptr);
  EXPECT_EQ(find_value(lock.facts, "architecture"), nullptr);
  findings[0].status = Status::missing;
  findings[0].fix = "mend it";
  problem_of(Code::E3401, [&] { lock_of(findings); });
}

TEST(CheckLineageTest, DriftIsNamedAndRecorded) {
  OtherMachine machine;
  const std::filesystem::path recipe = machine.at("recipes/a.yaml");
  const Lineage undocumented = check_lineage(recipe, machine.subject);
  EXPECT_TRUE(undocumented.lock_file.empty() && undocumented.documented.empty() && undocumented.drifts.empty());
  EXPECT_EQ(*find_value(undocumented.live, "env.XLA_FLAGS"), "--xla_dump_to=/tmp") << "noted all the same";
  EXPECT_EQ(find_value(undocumented.live, "plugin.cpu"), nullptr) << "a run says what it has loaded";
  machine.write("recipes/megacpp.lock", print_lock(lock_without_failures(machine.subject)));
  Lineage lineage = check_lineage(recipe, machine.subject);
  EXPECT_EQ(lineage.unread, "");
  EXPECT_TRUE(lineage.drifts.empty());
  EXPECT_GT(lineage.documented.size(), lineage.live.size()) << "hashes are the doctor's";
  machine.write("home/.cache/megacpp/plugins/cpu/VERSION", "package xla-cpu-pjrt\nversion 1.3.0\n");
  machine.subject.surroundings.variables.erase("XLA_FLAGS");
  lineage = check_lineage(recipe, machine.subject);
  ASSERT_EQ(lineage.drifts.size(), 2u);
  EXPECT_EQ(lineage.drifts[0].name, "plugin.cpu");
  EXPECT_EQ(lineage.drifts[0].documented, "xla-cpu-pjrt 1.2.3");
  EXPECT_EQ(lineage.drifts[0].live, "xla-cpu-pjrt 1.3.0");
  EXPECT_NE(lineage.drifts[0].fix.find("megacpp plugins fetch cpu"), std::string::npos);
  EXPECT_EQ(lineage.drifts[1].fix, "export XLA_FLAGS='--xla_dump_to=/tmp'");
}

TEST(CheckLineageTest, AFileThatCannotBeComparedEndsNothing) {
  const OtherMachine machine;
  const std::filesystem::path recipe = machine.at("recipes/a.yaml");
  Lock lock = lock_without_failures(machine.subject);
  const std::string text = print_lock(lock);
  machine.write("recipes/megacpp.lock", text.substr(0, text.size() / 2));
  EXPECT_TRUE(check_lineage(recipe, machine.subject).unread.starts_with("E1901 lock file is damaged or edited: "));
  lock.architecture = "riscv64";
  machine.write("recipes/megacpp.lock", print_lock(lock));
  const Lineage lineage = check_lineage(recipe, machine.subject);
  EXPECT_EQ(lineage.unread, "E1903 lock file is of another architecture: a lock file of riscv64");
  EXPECT_EQ(lineage.lock_file, machine.at("recipes/megacpp.lock").string());
  EXPECT_TRUE(lineage.documented.empty() && lineage.drifts.empty());
  EXPECT_FALSE(lineage.live.empty()) << "what is here is noted";
}

}  // namespace
}  // namespace megacpp::lineage
