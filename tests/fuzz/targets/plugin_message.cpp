// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "megacpp/machine/plugins/oom_message.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

namespace plugins = runtime::plugins;

void read_message(Bytes input) {
  Choices choices(input);
  const plugins::OomContext context{
      .during = choices.any_of(
          {plugins::OomClass::compile, plugins::OomClass::load, plugins::OomClass::runtime, plugins::OomClass::host}),
      .platform = choices.any_of({plugins::PluginKind::cpu, plugins::PluginKind::tpu, plugins::PluginKind::cuda})};
  const std::string_view text = as_text(input).substr(std::min<size_t>(2, input.size()));
  plugins::read_size(text);
  const plugins::OomMessage message = plugins::read_oom_message(text, context);
  require(message.text == text, "a message is kept whole");
  for (const plugins::Bytes& bytes : {message.used, message.limit})
    require(!bytes || *bytes >= 0, "bytes are not negative");
  base::to_text(plugins::to_json(message));
  throw plugins::out_of_memory(message, "fuzz.so, compiling");
}

}  // namespace

Target plugin_message_target() {
  return {.name = "plugin_message", .subject = "messages of plugins", .weight = 100, .run = read_message};
}

}  // namespace megacpp::fuzz
