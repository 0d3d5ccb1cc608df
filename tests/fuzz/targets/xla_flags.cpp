// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "megacpp/machine/plugins/flags.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

namespace plugins = runtime::plugins;

std::string any_entry(Choices& choices) {
  switch (choices.below(4)) {
    case 0:
      return choices.any_of(plugins::all_profiles()).name;
    case 1:
      return choices.text(40);
    default: {
      std::string entry = choices.any_of({"", "", "raw:", "--"});
      entry += choices.any_of(plugins::all_flags()).name;
      entry += choices.any_of({"=", "=", "=", ""});
      return entry += hostile_scalar(choices);
    }
  }
}

void read_flags(Bytes input) {
  Choices choices(input);
  const plugins::FlagTarget target{
      .platform = choices.any_of({plugins::PluginKind::cpu, plugins::PluginKind::tpu, plugins::PluginKind::cuda}),
      .generation = plugins::generation_of_topology(choices.any_of({"", "v6e:4x4", "v5:2x2x1", "tpu7x:2x2x1", "x"})),
      .hides_sve = choices.one_in(2)};
  std::vector<std::string> entries;
  for (size_t count = 1 + choices.below(4); count > 0; --count) entries.push_back(any_entry(choices));
  const plugins::ResolvedFlags flags = plugins::resolve_flags(entries, target);
  plugins::environment_form(flags);
  require(plugins::override_form(flags).size() == flags.flags.size(), "a flag is resolved once");
  base::to_text(plugins::to_json(flags));
}

}  // namespace

Target xla_flags_target() {
  return {.name = "xla_flags", .subject = "XLA flags of recipes", .weight = 50, .run = read_flags};
}

}  // namespace megacpp::fuzz
