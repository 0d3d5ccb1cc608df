// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/json_tree.h"

#include <vector>

#include <nlohmann/json.hpp>

namespace megacpp::fuzz {
namespace {

using base::Json;

/// Every value that has a parent, in the order of the document.
struct Place {
  Json* parent;
  std::string key;  // of an object
  size_t index;     // of a list
};

void collect(Json& value, std::vector<Place>& places) {
  size_t index = 0;
  for (auto item = value.begin(); value.is_structured() && item != value.end(); ++item, ++index) {
    places.push_back({&value, value.is_object() ? item.key() : std::string(), index});
    collect(*item, places);
  }
}

Json& value_at(const Place& place) {
  return place.parent->is_object() ? (*place.parent)[place.key] : (*place.parent)[place.index];
}

void remove(const Place& place) {
  if (place.parent->is_object())
    place.parent->erase(place.key);
  else
    place.parent->erase(place.index);
}

void add_beside(const Place& place, const std::string& key, Json value) {
  if (place.parent->is_object())
    (*place.parent)[key] = std::move(value);
  else
    place.parent->push_back(std::move(value));
}

/// Of a number its neighbours and multiples, which pass more checks than a number from nowhere.
Json near_value(const Json& value, Choices& choices) {
  if (value.is_boolean()) return !value.get<bool>();
  if (!value.is_number_integer()) return hostile_value(choices);
  const auto number = static_cast<uint64_t>(value.get<int64_t>());
  return static_cast<int64_t>(choices.any_of<uint64_t>({number + 1, number - 1, number * 2, number / 2, number * 3,
                                                        number * 1024, 0 - number, number << 32, number ^ 1}));
}

void change_place(Json& document, Choices& choices) {
  std::vector<Place> places;
  collect(document, places);
  if (places.empty()) {
    document = hostile_value(choices);
    return;
  }
  const Place& place = choices.any_of(places);
  switch (choices.below(8)) {
    case 0:
    case 1:
      value_at(place) = near_value(value_at(place), choices);
      break;
    case 2:
    case 3:
      value_at(place) = hostile_value(choices);
      break;
    case 4:
      remove(place);
      break;
    case 5:
      add_beside(place, choices.one_in(2) ? hostile_scalar(choices) : place.key + choices.any_of({"s", "_", "2"}),
                 Json(value_at(place)));
      break;
    case 6:
      value_at(place) = Json(value_at(choices.any_of(places)));
      break;
    default:
      value_at(place) = choices.one_in(2) ? Json::array({value_at(place)}) : Json{{"x", value_at(place)}};
  }
}

}  // namespace

Json hostile_value(Choices& choices) {
  const std::string scalar = hostile_scalar(choices);
  const Json parsed = Json::parse(scalar, nullptr, false);
  return parsed.is_discarded() ? Json(scalar) : parsed;
}

void change_tree(Json& document, Choices& choices, size_t most) {
  for (size_t changes = choices.below(most + 1); changes > 0; --changes) change_place(document, choices);
}

}  // namespace megacpp::fuzz
