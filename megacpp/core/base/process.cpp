// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/stop_signals.h"

namespace megacpp::base {
namespace {

/// Interrupts reach the program, not us, for as long as the object lives.
class InterruptsIgnored {
 public:
  InterruptsIgnored() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &before_);
  }
  ~InterruptsIgnored() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptsIgnored(const InterruptsIgnored&) = delete;
  InterruptsIgnored& operator=(const InterruptsIgnored&) = delete;

 private:
  struct sigaction before_ = {};
};

// Who starts us may ignore SIGCHLD and hand that on: the system then forgets how programs end, and every failure would
// read as a success.
void keep_statuses_of_programs() {
  struct sigaction now = {};
  ::sigaction(SIGCHLD, nullptr, &now);
  if (now.sa_handler != SIG_IGN) return;
  now.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &now, nullptr);
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const auto& [name, value] : variables) replaced |= std::string(*entry).starts_with(name + "=");
    if (!replaced) entries.emplace_back(*entry);
  }
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Starts the program with both streams on `output` and an interrupt that ends it; 0 and the reason when it cannot be.
std::pair<pid_t, int> start(const ProgramRun& run, int output) {
  std::vector<std::string> words = run.words, entries = environment_with(run.variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (run.streams == Streams::kept) {
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t ours;  // what this process ignores is the program's to be ended by
  ::sigemptyset(&ours);
  ::sigaddset(&ours, SIGINT);
  ::sigaddset(&ours, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &ours);
  const bool is_apart = run.interrupts == Interrupts::caller;  // from the terminal's group: it is stopped once, by us
  ::posix_spawnattr_setflags(&attributes,
                             static_cast<short>(POSIX_SPAWN_SETSIGDEF | (is_apart ? POSIX_SPAWN_SETPGROUP : 0)));
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, pointers_to(words).data(),
                                   pointers_to(entries).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return {error == 0 ? pid : 0, error};
}

/// What the system says of a process; nothing: there is none.
struct ProcessState {
  char state = 0;  // 'Z' and 'X': it has ended
  pid_t group = 0;

  bool is_living() const { return state != 'Z' && state != 'X'; }
};

std::optional<ProcessState> state_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text, '\0');  // all of it; nothing where the process has ended meanwhile, or where it is none
  const size_t name_end = text.rfind(") ");  // "7841 (a name) S 7840 7841 ..."
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 2));
  ProcessState found;
  pid_t parent = 0;
  return words >> found.state >> parent >> found.group ? std::optional(found) : std::nullopt;
}

Children children_of(pid_t pid) {
  Children found = Children::none;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const std::filesystem::path& task : read_folder(tasks).entries) {
    std::ifstream list(task / "children");
    for (pid_t child = 0; list >> child;) {
      const std::optional<ProcessState> state = state_of("/proc/" + std::to_string(child));
      if (state && state->is_living()) return Children::living;
      found = Children::ended;
    }
  }
  return found;
}

/// Those that have ended count for the system as long as nobody asks how.
bool has_living_member(pid_t group) {
  if (::kill(-group, 0) != 0) return false;
  for (const std::filesystem::path& process : read_folder("/proc").entries) {
    const std::optional<ProcessState> state = state_of(process);
    if (state && state->group == group && state->is_living()) return true;
  }
  return false;
}

/// What is done while a program runs, however much it prints: every 20 ms it is asked whether it is to stop, about once
/// a second the rest.
class Ticks {
 public:
  Ticks(const ProgramRun& run, pid_t pid, const HeldEnd& end) : run_(run), pid_(pid), end_(end) {}

  int milliseconds_left() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, kLookEvery));
  }
  void look() {
    if (kill_at_) {
      if (!was_killed_ && Clock::now() >= *kill_at_) was_killed_ = true, end_by(SIGKILL);
    } else if (end_.is_due()) {
      end_in_time();
    } else if (!was_stopped_ && run_.should_stop()) {
      was_stopped_ = true;
      ::kill(pid_, run_.stop_signal);
    }
    if (Clock::now() < next_) return;
    next_ += kInterval;
    run_.on_tick();
    if (!kill_at_ && run_.is_overdue(children_of(pid_))) end_in_time();
  }
  /// Called once, when the program itself has ended.
  void stop_what_is_left() {
    if (was_stopped_ && has_left_some()) ::kill(-pid_, run_.stop_signal);
  }
  bool was_killed() const { return was_killed_; }
  /// Whether the program was ended, and what it has started was not yet.
  bool has_left_some() const {
    return (was_stopped_ || kill_at_) && !was_killed_ && is_apart() && has_living_member(pid_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kInterval{1};
  static constexpr int64_t kLookEvery = 20;  // milliseconds

  bool is_apart() const { return run_.interrupts == Interrupts::caller; }
  void end_by(int signal) const { ::kill(is_apart() ? -pid_ : pid_, signal); }
  void end_in_time() {
    end_by(SIGTERM);
    kill_at_ = Clock::now() + run_.kill_after;
  }

  const ProgramRun& run_;
  pid_t pid_;
  const HeldEnd& end_;
  Clock::time_point next_ = Clock::now() + kInterval;
  bool was_stopped_ = false;
  std::optional<Clock::time_point> kill_at_;  // of one that is overdue, or that we are not to outlive
  bool was_killed_ = false;
};

std::string read_until_closed(int input, Ticks& ticks) {
  std::string output;
  char buffer[4096];
  for (;;) {
    pollfd ready = {input, POLLIN, 0};
    const int events = ::poll(&ready, 1, ticks.milliseconds_left());
    const bool is_silent = events == 0 || (events < 0 && errno == EINTR);
    ticks.look();
    if (ticks.was_killed()) return output;  // what it started may keep the streams open
    if (is_silent) continue;
    const ssize_t count = ::read(input, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    output.append(buffer, static_cast<size_t>(count));
  }
}

int exit_status_in(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Of the program alone: this process may have other children. Nothing while it runs.
std::optional<int> asked_status(pid_t pid) {
  int status = 0;
  pid_t asked = 0;
  while ((asked = ::waitpid(pid, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (asked == 0) return std::nullopt;
  MEGACPP_CHECK(asked == pid) << "how process " << pid << " ended is not known: " << std::strerror(errno);
  return exit_status_in(status);
}

void wait_and_look(Ticks& ticks) {
  ::poll(nullptr, 0, ticks.milliseconds_left());
  ticks.look();
}

/// One may go on when it has closed its streams.
int status_with_ticks(pid_t pid, Ticks& ticks) {
  for (;;) {
    if (const std::optional<int> status = asked_status(pid)) return *status;
    wait_and_look(ticks);
  }
}

/// What a program has started itself may outlive it, and keep streams open that nobody here reads.
void end_what_is_left(Ticks& ticks) {
  ticks.stop_what_is_left();
  while (ticks.has_left_some()) wait_and_look(ticks);
}

}  // namespace

ProgramEnd run_program(const ProgramRun& run) {
  MEGACPP_CHECK(!run.words.empty());
  int ends[2];
  MEGACPP_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0, E3002,
                  {.where = run.words[0],
                   .got = std::string("no pipe: ") + std::strerror(errno),
                   .wanted = "a pipe to the program",
                   .next = "close other programs and try again"});
  keep_statuses_of_programs();
  const HeldEnd held;
  std::optional<InterruptsIgnored> ours;
  if (run.interrupts == Interrupts::program) ours.emplace();
  const auto [pid, error] = start(run, ends[1]);
  ::close(ends[1]);
  ProgramEnd end;
  Ticks ticks(run, pid, held);
  if (pid == 0) {
    end = {.status = 127, .output = run.words[0] + ": " + std::strerror(error), .was_started = false};
  } else if (run.streams == Streams::shared) {
    end.status = status_with_ticks(pid, ticks);
    end_what_is_left(ticks);
  } else {
    end.output = read_until_closed(ends[0], ticks);
    end.status = status_with_ticks(pid, ticks);
  }
  ::close(ends[0]);
  return end;
}

}  // namespace megacpp::base
