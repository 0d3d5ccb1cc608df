// SPDX-License-Identifier: Apache-2.0
// The dashboard among clients that mean it harm and runs that are written while they are read. The long form, ten
// thousand requests to the program itself, is tests/browser/run --hostile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/path.h"
#include "megacpp/evidence/serve/server.h"
#include "tests/support/http_client.h"
#include "tests/support/served_runs.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::serve {
namespace {

using std::chrono::milliseconds;
using testing_support::has;
using testing_support::HttpClient;
using testing_support::request_head;
using testing_support::seeded_receipt;
using testing_support::status_of;
using testing_support::write_run;

constexpr const char* kOutside = "secret-of-another-folder";

using Random = std::mt19937_64;

size_t below(Random& random, size_t end) { return random() % end; }

std::string random_bytes(Random& random, size_t most) {
  std::string bytes(below(random, most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// A way out of the folder, one step as this or that server has once taken it for "..", "/" or the end of a name.
std::string way_out(Random& random) {
  static const std::vector<std::string> steps = {"..",
                                                 "%2e%2e",
                                                 ".%2e",
                                                 "%2E.",
                                                 "%252e%252e",
                                                 "%c0%ae%c0%ae",
                                                 "%e0%80%ae%e0%80%ae",
                                                 "..%00",
                                                 "..%0d%0a",
                                                 "%uff0e",
                                                 "..;",
                                                 "...",
                                                 "..%5c",
                                                 "..\\",
                                                 "%2f..",
                                                 "..%2f..",
                                                 "%252f",
                                                 "%c0%af",
                                                 "%5c%5c",
                                                 "//",
                                                 "~root",
                                                 "a%00",
                                                 "%",
                                                 "%2",
                                                 "\xff\xfe",
                                                 "a%2f..",
                                                 "%2fetc",
                                                 "etc",
                                                 "passwd",
                                                 "link",
                                                 "recipe.yaml",
                                                 "proc/self/environ",
                                                 "file:///etc/passwd"};
  std::string path = below(random, 2) == 0 ? "/runs" : "";
  for (size_t i = 0, count = 1 + below(random, 5); i < count; ++i) path += "/" + steps[below(random, steps.size())];
  return path + (below(random, 4) == 0 ? "/events" : "");
}

std::string bad_request(Random& random, int port) {
  switch (below(random, 8)) {
    case 0:
      return random_bytes(random, 300) + "\r\n\r\n";
    case 1: {
      std::string text = request_head(port, "GET /runs/a?stamp=1");
      for (int i = 0; i < 3; ++i) text[below(random, text.size())] = static_cast<char>(random());
      return text + "\r\n\r\n";
    }
    case 2:
      return request_head(port, "GET /" + std::string(below(random, 9'000), 'a'));
    case 3:
      return request_head(port, "GET /", "X-" + std::string(below(random, 9'000), 'b') + ": 1\r\n");
    case 4:
      return request_head(port, "POST /runs/a", "Content-Length: 99999999999\r\nTransfer-Encoding: chunked\r\n") +
             random_bytes(random, 200);
    case 5:
      return request_head(port, "GET /", "Range: bytes=0-,-1,5-2\r\nConnection: keep-alive\r\n") +
             request_head(port, "GET /runs/b");
    case 6:
      return request_head(port, "GET /compare?run=a&run=" + way_out(random));
    default:
      return request_head(port, "GET " + way_out(random));
  }
}

class HostileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(elsewhere_ / "recipe.yaml") << kOutside;
    std::filesystem::create_symlink(elsewhere_.path(), folder_ / "link");
    for (const char* name : {"a", "b"}) write_run(folder_.path(), seeded_receipt({.name = name}));
    Listen listen;
    listen.head_time = milliseconds(100);
    launch::CatalogChoice no_catalog;
    no_catalog.none = true;
    server_ = std::make_unique<Server>(listen, runs_, no_catalog);
  }

  void ask(uint64_t seed, int requests) const {
    Random random(seed);
    for (int i = 0; i < requests; ++i) {
      const std::string sent = bad_request(random, server_->port());
      HttpClient client(server_->port());
      client.send(sent);
      // Feeds go on: what they begin with is enough.
      const std::string& answer = client.read_until("retry: 2000", milliseconds(5'000));
      const int status = status_of(answer);
      EXPECT_TRUE(status < 500 || status == 503) << status << " to\n" << sent << "\n" << answer;
      EXPECT_FALSE(has(answer, kOutside)) << sent << "\n" << answer;
      EXPECT_FALSE(has(answer, "root:")) << sent << "\n" << answer;
    }
  }

  /// Cuts files of a run in the middle, writes rubbish into them and takes the whole run away, as long as it may.
  void damage_runs(const std::atomic<bool>& may_go_on) const {
    Random random(7);
    const std::string whole = receipt::to_text(seeded_receipt({.name = "b"}));
    while (may_go_on) {
      std::ofstream(folder_ / "b" / "receipt.json", std::ios::trunc) << whole.substr(0, below(random, whole.size()));
      std::ofstream(folder_ / "b" / "log.jsonl", std::ios::app) << "{\"step\": 3, \"lo" << random_bytes(random, 40);
      std::ofstream(folder_ / "b" / "recipe.yaml", std::ios::trunc) << random_bytes(random, 200);
      if (below(random, 8) != 0) continue;
      std::filesystem::remove_all(folder_ / "b");
      write_run(folder_.path(), seeded_receipt({.name = "b"}));
    }
  }

  static size_t open_files() { return base::list_folder("/proc/self/fd").size(); }

  const testing_support::TemporaryFolder folder_;
  const testing_support::TemporaryFolder elsewhere_;
  RunIndex runs_{folder_.path()};
  std::unique_ptr<Server> server_;
};

TEST_F(HostileTest, BadRequestsAndHalfWrittenRunsAreAnswered) {
  const size_t files_before = open_files();
  std::atomic<bool> may_go_on = true;
  std::thread damage([&] { damage_runs(may_go_on); });
  std::vector<std::thread> clients;
  for (uint64_t seed = 1; seed <= 4; ++seed) clients.emplace_back([this, seed] { ask(seed, 60); });
  for (std::thread& client : clients) client.join();
  may_go_on = false;
  damage.join();
  const std::string list = testing_support::answer_to(server_->port(), request_head(server_->port(), "GET /"));
  EXPECT_EQ(status_of(list), 200) << list;
  EXPECT_TRUE(has(list, "/runs/a")) << list;
  for (int i = 0; i < 200 && open_files() > files_before; ++i) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_LE(open_files(), files_before) << "every connection is closed";
}

TEST_F(HostileTest, SlowClientsKeepNobodyWaiting) {
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (size_t i = 0; i < 2 * kThreads; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server_->port()));
    slow.back()->send("GET / HT");
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of(testing_support::answer_to(server_->port(), request_head(server_->port(), "GET /"))), 200);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace megacpp::serve
