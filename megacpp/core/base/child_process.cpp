// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>

#include "megacpp/core/base/error.h"

namespace megacpp::base {
namespace {

constexpr size_t kKeptWords = 4000;  // bytes of the child's last output

[[noreturn]] void fail(const std::string& got, const std::string& words) {
  raise(Code::E3202, {.where = "a child process",
                      .got = got + (words.empty() ? "; it wrote nothing" : "; it wrote last:\n" + words),
                      .wanted = "an answer",
                      .next = "read its last words; raise the time limit if it was merely slow"});
}

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(std::string("no pipe: ") + std::strerror(errno), "");
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close(size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends = {-1, -1};  // to read from, to write to
};

// The answer: a kind, then fields, each with its length in front. R: the report; E: code and words of an error of ours;
// X: the words of another exception.
std::string field(std::string_view text) { return std::to_string(text.size()) + ":" + std::string(text); }

std::string answer_of(const std::function<std::string()>& work) {
  try {
    return "R" + field(work());
  } catch (const Error& error) {
    const Problem& problem = error.problem();
    return "E" + field(std::to_string(static_cast<int>(error.code()))) + field(problem.where) + field(problem.got) +
           field(problem.wanted) + field(problem.next);
  } catch (const std::exception& error) {
    return "X" + field(error.what());
  }
}

std::string take_field(std::string_view& rest) {
  const size_t colon = rest.find(':');
  const size_t size = std::stoul(std::string(rest.substr(0, colon)));
  std::string text(rest.substr(colon + 1, size));
  rest.remove_prefix(colon + 1 + size);
  return text;
}

void write_answer(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

[[noreturn]] void be_the_child(const std::function<std::string()>& work, const Pipe& report, const Pipe& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a parent that is killed leaves no compiler behind
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(words.ends[1], STDOUT_FILENO);
  ::dup2(words.ends[1], STDERR_FILENO);
  write_answer(report.ends[1], answer_of(work));
  ::_exit(0);  // no destructors and no buffers of the parent
}

/// Reads what is there; false at the end of the pipe.
bool drain(int fd, std::string& text) {
  char buffer[16384];
  const ssize_t count = ::read(fd, buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<size_t>(count));
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

struct Heard {
  std::string report;
  std::string words;
  bool in_time = true;
};

Heard listen(const Pipe& report, const Pipe& words, std::chrono::milliseconds limit, const Waiting& waiting) {
  using std::chrono::ceil, std::chrono::floor, std::chrono::milliseconds, std::chrono::steady_clock;
  const auto start = steady_clock::now();
  const auto deadline = start + limit;
  auto next_word = start + waiting.every;
  std::array<pollfd, 2> watched = {pollfd{report.ends[0], POLLIN, 0}, pollfd{words.ends[0], POLLIN, 0}};
  Heard heard;
  while (watched[0].fd >= 0) {
    const auto now = steady_clock::now();
    if (now >= deadline) {
      heard.in_time = false;
      return heard;
    }
    if (now >= next_word) {
      if (waiting.say) waiting.say(floor<milliseconds>(now - start));
      next_word = now + waiting.every;
    }
    const int64_t left = ceil<milliseconds>(std::min(deadline, next_word) - now).count();
    ::poll(watched.data(), watched.size(), static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (watched[0].revents != 0 && !drain(watched[0].fd, heard.report)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !drain(watched[1].fd, heard.words)) watched[1].fd = -1;
    if (heard.words.size() > 2 * kKeptWords) heard.words.erase(0, heard.words.size() - kKeptWords);
  }
  return heard;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return "it was ended by " +
           (name == nullptr ? "signal " + std::to_string(WTERMSIG(status)) : "SIG" + std::string(name));
  }
  return "it ended with status " + std::to_string(WEXITSTATUS(status)) + " and no answer";
}

std::string last_words(const std::string& words) {
  return words.size() <= kKeptWords ? words : words.substr(words.size() - kKeptWords);
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                         const Waiting& waiting) {
  Pipe report;
  Pipe words;
  const pid_t child = ::fork();
  if (child < 0) fail(std::string("no process: ") + std::strerror(errno), "");
  if (child == 0) be_the_child(work, report, words);
  report.close(1);
  words.close(1);

  Heard heard = listen(report, words, limit, waiting);
  if (!heard.in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::fcntl(words.ends[0], F_SETFL, O_NONBLOCK);
  for (size_t before = heard.words.size() + 1; before != heard.words.size();) {
    before = heard.words.size();
    drain(words.ends[0], heard.words);
  }
  const std::string said = last_words(heard.words);
  if (!heard.in_time) fail("no answer within " + std::to_string(limit.count()) + " ms; it was killed", said);
  if (status != 0 || heard.report.empty()) fail(how_it_ended(status), said);

  std::string_view rest = std::string_view(heard.report).substr(1);
  if (heard.report[0] == 'R') return take_field(rest);
  if (heard.report[0] == 'X') fail("it threw: " + take_field(rest), said);
  const auto code = static_cast<Code>(std::stoi(take_field(rest)));
  Problem problem;
  for (std::string* part : {&problem.where, &problem.got, &problem.wanted, &problem.next}) *part = take_field(rest);
  raise(code, problem);
}

}  // namespace megacpp::base
