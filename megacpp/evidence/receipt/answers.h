// SPDX-License-Identifier: Apache-2.0
// The five questions that every receipt answers, each in a sentence made of its content.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::receipt {

struct Question {
  const char* name;  // of its answer in JSON
  const char* text;  // "Which topology?"
  std::string Answers::*answer;
};
const std::vector<Question>& five_questions();

Answers answers_of(const Receipt& receipt);

}  // namespace megacpp::receipt
