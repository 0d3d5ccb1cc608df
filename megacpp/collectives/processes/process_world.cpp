// SPDX-License-Identifier: Apache-2.0
#include "megacpp/collectives/processes/process_world.h"

#include <algorithm>
#include <utility>

#include "megacpp/base/error.h"

namespace megacpp::collectives {
namespace {

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
      agreement_limit_(options.agreement_limit.value_or(options.wait_limit)),
      answer_limit_(options.answer_limit),
      chips_(chips_of_process(options, endpoint->process())),
      hosts_({endpoint->host()}),
      crossings_(chips_, std::move(endpoint), options.owners,
                 options.properties.has_fixed_order_sums ? Sums::exact : Sums::fast) {
  chips_.attach(crossings_);
  crossings_.set_hosts(options.hosts);  // who does not come is named with its host
  hosts_ = crossings_.gather(hosts_.front(), {.limit = options.join_limit, .silence = options.join_limit});
  crossings_.set_hosts(hosts_);
}

}  // namespace megacpp::collectives
