// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/gpu_shares.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/json.h"

namespace megacpp::runtime::plugins {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kHostId = "NCCL_HOSTID";

bool sees_the_same(const GpuUser& a, const GpuUser& b) { return a.machine == b.machine && a.visible == b.visible; }

// NCCL refuses two of its members on one GPU, unless each claims to be on a host of its own.
bool claim_hosts_of_their_own(const std::vector<GpuUser>& users, const GpuUser& own) {
  std::set<std::string> claimed;
  size_t count = 0;
  for (const GpuUser& user : users) {
    if (!sees_the_same(user, own)) continue;
    ++count;
    if (!user.host_id.empty()) claimed.insert(user.host_id);
  }
  return claimed.size() == count;
}

}  // namespace

GpuUser gpu_user(const std::string& machine, const std::function<std::string(const std::string& name)>& variable,
                 int64_t all) {
  GpuUser user{.machine = machine, .visible = variable(kVisible), .gpus = all, .host_id = variable(kHostId)};
  if (!user.visible.empty()) user.gpus = 1 + std::ranges::count(user.visible, ',');
  return user;
}

std::string to_text(const GpuUser& user) {
  return base::to_text(
      base::Json{{"machine", user.machine}, {"visible", user.visible}, {"gpus", user.gpus}, {"host_id", user.host_id}});
}

GpuUser gpu_user_of(const std::string& text) {
  const base::Json json = base::parse_json(text, base::Code::E9001, "GPUs of a process");
  return {.machine = json.at("machine"),
          .visible = json.at("visible"),
          .gpus = json.at("gpus"),
          .host_id = json.at("host_id")};
}

GpuShare gpu_share(const std::vector<GpuUser>& users, size_t process, int64_t chips) {
  const GpuUser& own = users[process];
  const auto is_peer = [&own](const GpuUser& user) { return sees_the_same(user, own); };
  const int64_t peers = std::ranges::count_if(users, is_peer);
  const int64_t place = std::count_if(users.begin(), users.begin() + static_cast<int64_t>(process), is_peer);
  const bool suffice = own.gpus == 0 || own.gpus >= peers * chips;
  MEGACPP_REQUIRE(suffice || (own.gpus >= chips && claim_hosts_of_their_own(users, own)), E1504,
                  ({.where = own.machine,
                    .got = fmt::format("{} GPUs for {} processes with {} chips each", own.gpus, peers, chips),
                    .wanted = fmt::format("{} GPUs", peers * chips),
                    .next = fmt::format("start fewer processes there; to test a run over hosts on one GPU give every "
                                        "process a {} of its own, and NCCL_SOCKET_IFNAME=lo",
                                        kHostId)}));
  GpuShare share{.devices = {}, .sharers = suffice ? 1 : peers};
  for (int64_t chip = 0; chip < chips; ++chip) share.devices.push_back((suffice ? place * chips : 0) + chip);
  return share;
}

}  // namespace megacpp::runtime::plugins
