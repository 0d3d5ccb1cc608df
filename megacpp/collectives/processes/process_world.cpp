// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/process_world.h"

#include <algorithm>
#include <utility>

#include "megacpp/base/error.h"

namespace megacpp::collectives {
namespace {

constexpr std::chrono::milliseconds kStartLimit = std::chrono::minutes(2);  // for processes that start slowly

LocalChips::Options chips_of_process(const ProcessWorld::Options& options, int64_t process) {
  LocalChips::Options own{
      .chips = static_cast<int64_t>(options.owners.size()), .local = {}, .wait_limit = options.wait_limit};
  for (size_t chip = 0; chip < options.owners.size(); ++chip)
    if (options.owners[chip] == process) own.local.push_back(static_cast<int64_t>(chip));
  MEGACPP_CHECK(!own.local.empty()) << "process " << process << " has no chip";
  return own;
}

}  // namespace

ProcessWorld::ProcessWorld(const Options& options, std::unique_ptr<Endpoint> endpoint)
    : properties_(options.properties),
      process_(endpoint->process()),
      answer_limit_(options.answer_limit),
      chips_(chips_of_process(options, endpoint->process())),
      hosts_({endpoint->host()}),
      crossings_(chips_, std::move(endpoint), options.owners,
                 options.properties.has_fixed_order_sums ? Sums::exact : Sums::fast) {
  chips_.attach(crossings_);
  const std::chrono::milliseconds start = std::max(kStartLimit, options.answer_limit);
  hosts_ = crossings_.gather(hosts_.front(), {.limit = start, .silence = start});
  crossings_.set_hosts(hosts_);
}

}  // namespace megacpp::collectives
