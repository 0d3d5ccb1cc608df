// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/shared_facts.h"

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/hardware/catalog/fields.h"
#include "megacpp/machine/runtime/fields.h"

namespace megacpp::launch {

template <typename Visit, base::Is<RememberedStart> Self>
void visit_fields(const Visit& visit, Self& remembered) {
  visit("start", remembered.start);
  visit("ran", remembered.ran);
}

template <typename Visit, base::Is<ChipReport> Self>
void visit_fields(const Visit& visit, Self& chip) {
  visit("chip", chip.chip);
  visit("memory", chip.memory);
}

template <typename Visit, base::Is<RunMeasures> Self>
void visit_fields(const Visit& visit, Self& measures) {
  visit("chips", measures.chips);
  visit("counters", measures.counters);
  visit("parts", measures.parts);
}

template <typename Visit, base::Is<ProcessHost> Self>
void visit_fields(const Visit& visit, Self& process) {
  visit("machine", process.machine);
  visit("name", process.name);
  visit("free", process.free_bytes);
}

template <typename Visit, base::Is<CoreUser> Self>
void visit_fields(const Visit& visit, Self& user) {
  visit("machine", user.machine);
  visit("cores", user.cores);
}

namespace {

// Written by another process of this very build: what is not as written is a defect.
base::Json parse(const std::string& text) {
  return base::parse_json(text, base::Code::E9001, "a fact of another process");
}

}  // namespace

std::string rates_text(const hw::HostRates& rates) { return base::to_text(hw::to_json(rates)); }

hw::HostRates rates_of(const std::string& text) { return hw::host_rates_of(parse(text)); }

template <typename Fact>
std::string fact_text(const Fact& fact) {
  return base::record_text(fact);
}

template <typename Fact>
Fact fact_of(const std::string& text) {
  return base::whole_record<Fact>(parse(text), [](const std::string& path, std::string_view wanted) {
    MEGACPP_CHECK(false) << "a fact of another process: " << path << " is not " << wanted;
  });
}

#define MEGACPP_FACT(Fact)                     \
  template std::string fact_text(const Fact&); \
  template Fact fact_of(const std::string&)
MEGACPP_FACT(std::vector<catalog::Sample>);
MEGACPP_FACT(RememberedStart);
MEGACPP_FACT(catalog::OomReport);
MEGACPP_FACT(RunMeasures);
MEGACPP_FACT(ProcessHost);
MEGACPP_FACT(CoreUser);
#undef MEGACPP_FACT

}  // namespace megacpp::launch
