// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/campaign.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <iterator>
#include <list>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/oracle.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostText = 4096;
constexpr size_t kMostLog = 1 << 16;
constexpr int kFindingStatus = 3;
constexpr int64_t kPatience = 6;
constexpr uint64_t kCasesOfAProcess = 20'000;  // so that what a process gathers over its cases stays small

/// What a worker tells of its case, in memory that outlives it.
struct Board {
  std::atomic<uint64_t> done;      // cases of the chunk that ended
  std::atomic<uint64_t> accepted;  // of these
  std::atomic<int64_t> cpu_began;  // ns of the worker's processor time when the case began
  std::atomic<int64_t> began;      // of the case at hand, in ns of Clock
  std::atomic<int64_t> slowest;    // ns
  size_t size;                     // of the input
  char text[kMostText];            // of a finding
  uint8_t input[kLargestInput];
};

class SharedBoard {
 public:
  SharedBoard()
      : board_(static_cast<Board*>(
            ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (board_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  }
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board* operator->() const { return board_; }

 private:
  Board* board_;
};

/// Cases [begin, end) of an assignment; those below the corpus's size are its inputs.
struct Chunk {
  size_t assignment = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

int64_t cpu_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t now() { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); }

Input case_input(const Assignment& assignment, uint64_t number, uint64_t seed) {
  if (number < assignment.corpus.size()) return assignment.corpus[number];
  Random random(seed, assignment.target->name, number);
  return mutate_any(assignment.corpus, random);
}

struct WorkerOptions {
  uint64_t seed;
  std::filesystem::path scratch;  // folder for its files
};

/// A process that works through a chunk. Its stdout and stderr go to a file that is read only when it dies.
class Worker {
 public:
  Worker(const Assignment& assignment, const Chunk& chunk, const WorkerOptions& options)
      : assignment_(assignment), chunk_(chunk), log_(::memfd_create("fuzz worker", MFD_CLOEXEC)), start_(Clock::now()) {
    board_->began = now();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ == 0) work(options);
  }
  ~Worker() { ::close(log_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Chunk& chunk() const { return chunk_; }
  const Board* board() const { return board_.operator->(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void kill() const { ::kill(pid_, SIGKILL); }

  /// Whether it has ended; `status` is as waitpid gives it.
  bool has_ended(int& status) const { return ::waitpid(pid_, &status, WNOHANG) == pid_; }
  /// Over its limit, and not because the machine is busy with others: it has computed for half of it, or waits for
  /// ever.
  bool hangs() const {
    const int64_t limit = std::chrono::nanoseconds(assignment_.target->limit).count(), taken = now() - board_->began;
    clockid_t clock{};
    if (taken <= limit || ::clock_getcpuclockid(pid_, &clock) != 0) return false;
    return cpu_time(clock) - board_->cpu_began > limit / 2 || taken > kPatience * limit;
  }

  Finding finding(int status, bool hung) const {
    const Board* board = board_.operator->();
    const std::string said = log();
    std::string text = sanitizer_line(said);
    if (hung)
      text = "it hangs";
    else if (WIFSIGNALED(status))
      text = std::string("signal ") + ::strsignal(WTERMSIG(status));
    else if (WEXITSTATUS(status) == kFindingStatus)
      text.assign(board->text, ::strnlen(board->text, kMostText));
    else if (text.empty())
      text = "exit status " + std::to_string(WEXITSTATUS(status));
    return {.target = assignment_.target->name,
            .text = text + (said.empty() ? "" : "\n" + said),
            .input = Input(board->input, board->input + board->size)};
  }

 private:
  [[noreturn]] void work(const WorkerOptions& options) {
    ::setenv("TMPDIR", options.scratch.c_str(), 1);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(log_, stream);
#ifndef MEGACPP_FUZZ_SANITIZED  // the address sanitizer reserves more than any machine has, and has a limit of its own
    constexpr rlim_t kMost = rlim_t{6} << 30;
    const rlimit memory{kMost, kMost};
    ::setrlimit(RLIMIT_AS, &memory);
#endif
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (uint64_t number = chunk_.begin; number < chunk_.end; ++number) run_case(number, options.seed);
    ::_exit(0);
  }

  void run_case(uint64_t number, uint64_t seed) {
    Board* const board = board_.operator->();
    const Input input = case_input(assignment_, number, seed);
    board->size = std::min(input.size(), kLargestInput);
    std::copy_n(input.begin(), board->size, board->input);
    board->cpu_began = cpu_time(CLOCK_PROCESS_CPUTIME_ID);
    board->began = now();
    const Judgement judgement = judge(*assignment_.target, Bytes(input));
    board->slowest = std::max<int64_t>(board->slowest, now() - board->began);
    if (!judgement.finding.empty()) {
      ::strncpy(board->text, judgement.finding.c_str(), kMostText - 1);
      ::_exit(kFindingStatus);
    }
    board->accepted += judgement.is_accepted ? 1 : 0;
    ++board->done;
  }

  /// The end of what it said.
  std::string log() const {
    const off_t size = ::lseek(log_, 0, SEEK_END), begin = std::max<off_t>(0, size - off_t{kMostLog});
    std::string text(static_cast<size_t>(size - begin), '\0');
    const ssize_t got = ::pread(log_, text.data(), text.size(), begin);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }

  /// What a sanitizer found, in its own words; empty where none did.
  static std::string sanitizer_line(const std::string& said) {
    for (const char* mark : {"runtime error: ", "SUMMARY: "}) {
      const size_t at = said.find(mark);
      if (at == std::string::npos) continue;
      const size_t begin = said.rfind('\n', at) + 1;  // npos + 1 is 0
      return said.substr(begin, said.find('\n', at) - begin);
    }
    return {};
  }

  const Assignment& assignment_;
  Chunk chunk_;
  int log_;
  SharedBoard board_;
  Clock::time_point start_;
  pid_t pid_ = -1;
};

class Campaign {
 public:
  Campaign(const std::vector<Assignment>& assignments, const CampaignOptions& options)
      : assignments_(assignments), options_(options), until_(Clock::now() + options.total_limit) {
    for (const Assignment& each : assignments) report_.targets.push_back({.name = each.target->name});
    findings_of_.resize(assignments.size());
    next_.resize(assignments.size(), 0);
  }

  CampaignReport run() {
    for (bool more = true; more || !workers_.empty();) {
      while (more && workers_.size() < options_.jobs) {
        const std::optional<Chunk> chunk = Clock::now() > until_ ? std::nullopt : next_chunk();
        more = chunk.has_value();
        if (more)
          workers_.emplace_back(assignments_[chunk->assignment], *chunk, WorkerOptions{options_.seed, scratch_.path()});
      }
      const size_t before = workers_.size();
      for (auto worker = workers_.begin(); worker != workers_.end();)
        worker = look_after(*worker) ? workers_.erase(worker) : std::next(worker);
      more = more || !rests_.empty();
      if (workers_.size() == before) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return std::move(report_);
  }

 private:
  uint64_t cases_of(size_t assignment) const {
    return assignments_[assignment].corpus.size() + assignments_[assignment].mutations;
  }

  /// Targets in turns, so that a campaign that is ended early has seen all of them alike.
  std::optional<Chunk> next_chunk() {
    if (!rests_.empty()) {
      const Chunk rest = rests_.front();
      rests_.pop_front();
      return rest;
    }
    for (size_t tried = 0; tried < assignments_.size(); ++tried) {
      const size_t a = turn_++ % assignments_.size();
      const uint64_t size = std::clamp<uint64_t>(cases_of(a) / (2 * options_.jobs) + 1, 1, kCasesOfAProcess);
      const uint64_t begin = next_[a];
      if (begin >= cases_of(a) || findings_of_[a].size() >= options_.most_findings) continue;
      next_[a] = std::min(cases_of(a), begin + size);
      return Chunk{a, begin, next_[a]};
    }
    return std::nullopt;
  }

  /// Whether the worker is done with.
  bool look_after(const Worker& worker) {
    int status = 0;
    bool hung = false;
    if (!worker.has_ended(status)) {
      hung = worker.hangs();
      const bool is_over = Clock::now() > until_;
      if (!hung && !is_over) return false;
      worker.kill();
      while (!worker.has_ended(status)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!hung) status = 0;
    }
    count(worker);
    if (hung || status != 0) note(worker, worker.finding(status, hung));
    return true;
  }

  void count(const Worker& worker) {
    TargetReport& report = report_.targets[worker.chunk().assignment];
    report.cases += worker.board()->done;
    report.accepted += worker.board()->accepted;
    report.seconds += worker.seconds();
    report.slowest = std::max(report.slowest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                                  std::chrono::nanoseconds(worker.board()->slowest)));
  }

  void note(const Worker& worker, Finding finding) {
    Chunk rest = worker.chunk();
    ++report_.targets[rest.assignment].cases;
    std::set<std::string>& kinds = findings_of_[rest.assignment];
    if (kinds.insert(finding.text.substr(0, finding.text.find('\n'))).second) {
      options_.on_finding(finding);
      ++report_.targets[rest.assignment].findings;
      report_.findings.push_back(std::move(finding));
    }
    rest.begin += worker.board()->done + 1;
    if (rest.begin < rest.end && kinds.size() < options_.most_findings) rests_.push_back(rest);
  }

  const std::vector<Assignment>& assignments_;
  const CampaignOptions& options_;
  Clock::time_point until_;
  std::vector<uint64_t> next_;  // case, by assignment
  size_t turn_ = 0;
  std::deque<Chunk> rests_;  // of chunks whose workers died
  testing_support::TemporaryFolder scratch_;
  std::list<Worker> workers_;
  std::vector<std::set<std::string>> findings_of_;  // first lines, by assignment
  CampaignReport report_;
};

}  // namespace

CampaignReport run_campaign(const std::vector<Assignment>& assignments, const CampaignOptions& options) {
  return Campaign(assignments, options).run();
}

CampaignReport run_in_turn(const std::vector<Assignment>& assignments, const CampaignOptions& options) {
  CampaignReport all;
  for (const Assignment& each : assignments) {
    CampaignReport one = run_campaign({each}, options);
    all.targets.push_back(std::move(one.targets.front()));
    std::move(one.findings.begin(), one.findings.end(), std::back_inserter(all.findings));
  }
  return all;
}

std::vector<Input> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Input> inputs;
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

}  // namespace megacpp::fuzz
