// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "megacpp/program/blocks/rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::RopeScaling;

RopeScaling read_type(const HfFields& options) {
  options.require_one_of("rope_type", {"default", "linear", "llama3", "yarn"});
  options.require_one_of("type", {"default", "linear", "llama3", "yarn"});
  const std::string type = options.text_or("rope_type", options.text_or("type", "default"));
  if (type == "linear") return RopeScaling::linear;
  if (type == "llama3") return RopeScaling::llama3;
  return type == "yarn" ? RopeScaling::yarn : RopeScaling::none;
}

void refuse_unread(const HfFields& options, RopeScaling type) {
  std::set<std::string_view> read = {"rope_theta", "rope_type", "type", "partial_rotary_factor"};
  if (type != RopeScaling::none) read.insert("factor");
  if (type == RopeScaling::llama3)
    read.insert({"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  if (type == RopeScaling::yarn)
    read.insert({"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate",
                 "original_max_position_embeddings"});
  for (const std::string& name : options.names())
    if (!read.contains(name) && options.has(name))
      options.refuse(name, "given", "only what rope_type " + std::string(base::text_of(type)) + " reads");
}

/// Growth of queries and keys for a factor, its logarithm counted `scale` times.
double growth(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

double read_amplitude(const HfFields& options, double factor) {
  const double usual = growth(factor, 1), scale = options.number_or("mscale", 0);
  const double scale_of_all = options.number_or("mscale_all_dim", 0);
  const double implied = scale != 0 && scale_of_all != 0 ? growth(factor, scale) / growth(factor, scale_of_all) : usual;
  const double amplitude = options.number_or("attention_factor", implied);
  if (amplitude <= 0) options.refuse("attention_factor", std::to_string(amplitude), "a number above 0");
  return amplitude == usual ? 0 : amplitude;
}

/// Zero and null stand for the usual number of turns.
double turns_or(const HfFields& options, const char* field, double otherwise) {
  const double turns = options.number_or(field, otherwise);
  return turns == 0 ? otherwise : turns;
}

void read_scaling(const HfFields& config, const HfFields& options, blocks::Attention& a) {
  a.rope_scaling = read_type(options);
  refuse_unread(options, a.rope_scaling);
  if (a.rope_scaling == RopeScaling::none) return;
  if (a.rope_scaling != RopeScaling::linear) {
    const HfFields& place = config.has("original_max_position_embeddings") ? config : options;
    const bool is_given = place.has("original_max_position_embeddings");
    a.rope_original_length =
        is_given ? place.size("original_max_position_embeddings") : config.size("max_position_embeddings");
  }
  const bool follows_length = a.rope_scaling == RopeScaling::yarn && !options.has("factor");
  a.rope_factor = follows_length ? static_cast<double>(config.size("max_position_embeddings")) /
                                       static_cast<double>(a.rope_original_length)
                                 : options.number("factor");
  if (a.rope_scaling == RopeScaling::llama3) {
    a.rope_slow_turns = options.number("low_freq_factor");
    a.rope_fast_turns = options.number("high_freq_factor");
  }
  if (a.rope_scaling == RopeScaling::yarn) {
    a.rope_slow_turns = turns_or(options, "beta_slow", 1);
    a.rope_fast_turns = turns_or(options, "beta_fast", 32);
    a.rope_whole_channels = options.flag_or("truncate", true);
    a.rope_amplitude = read_amplitude(options, a.rope_factor);
  }
  if (a.rope_fast_turns == blocks::default_fast_turns(a.rope_scaling)) a.rope_fast_turns = 0;
}

void read_part(const HfFields& fields, double part, const RopeDefaults& otherwise, blocks::Attention& a) {
  if (part == 1) return;
  if (!otherwise.may_be_part) fields.refuse("partial_rotary_factor", "a part", "1");
  const bool is_part = part > 0 && part < 1;
  const auto channels = is_part ? static_cast<int64_t>(static_cast<double>(a.head_dim) * part) : 0;
  if (channels < 1) fields.refuse("partial_rotary_factor", std::to_string(part), "a part of a head that has channels");
  a.rotary_dim = channels;
}

}  // namespace

void read_rope(const HfFields& config, const HfFields& options, const RopeDefaults& otherwise, blocks::Attention& a) {
  a.rope_theta = options.number_or("rope_theta", config.number_or("rope_theta", otherwise.theta));
  read_scaling(config, options, a);
  const bool own_part = options.has("partial_rotary_factor");
  read_part(
      own_part ? options : config,
      own_part ? options.number("partial_rotary_factor") : config.number_or("partial_rotary_factor", otherwise.part),
      otherwise, a);
}

base::Json rope_json(const blocks::Attention& a) {
  base::Json json = {{"rope_type", "default"}, {"rope_theta", a.rope_theta}};
  if (a.turned() != a.head_dim)
    json["partial_rotary_factor"] = static_cast<double>(a.turned()) / static_cast<double>(a.head_dim);
  if (a.rope_scaling == RopeScaling::none) return json;
  json["rope_type"] = base::text_of(a.rope_scaling);
  json["factor"] = a.rope_factor;
  if (a.rope_scaling == RopeScaling::linear) return json;
  const double fast = a.rope_fast_turns > 0 ? a.rope_fast_turns : blocks::default_fast_turns(a.rope_scaling);
  json["original_max_position_embeddings"] = a.rope_original_length;
  if (a.rope_scaling == RopeScaling::llama3) {
    json["low_freq_factor"] = a.rope_slow_turns;
    json["high_freq_factor"] = fast;
    return json;
  }
  json["beta_slow"] = a.rope_slow_turns;
  json["beta_fast"] = fast;
  json["truncate"] = a.rope_whole_channels;
  if (a.rope_amplitude > 0) json["attention_factor"] = a.rope_amplitude;
  return json;
}

void rope(HfCodec& io, blocks::Attention& a, const RopeDefaults& otherwise) {
  if (!io.reads()) {
    // Where older and newer versions of the library look for it.
    io.put("rope_theta", a.rope_theta);
    io.put("rope_parameters", rope_json(a));
    if (io.writes_over("rope_scaling"))
      io.put("rope_scaling", a.rope_scaling == RopeScaling::none ? base::Json() : rope_json(a));
    return;
  }
  const HfFields& fields = io.fields();
  const base::Json none = base::Json::object();
  const char* field = fields.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  read_rope(fields, fields.has(field) ? fields.object(field) : HfFields(none, fields.context()), otherwise, a);
  // Both may be there: rope_scaling counts, and the theta of the other.
  if (fields.has("rope_scaling") && fields.has("rope_parameters") && !fields.object("rope_scaling").has("rope_theta"))
    a.rope_theta = fields.object("rope_parameters").number_or("rope_theta", a.rope_theta);
}

}  // namespace megacpp::checkpoint
