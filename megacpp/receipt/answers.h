// SPDX-License-Identifier: Apache-2.0
// The five questions that every receipt answers, each in a sentence made of its content.
#pragma once

#include "megacpp/receipt/receipt.h"

namespace megacpp::receipt {

Answers answers_of(const Receipt& receipt);

}  // namespace megacpp::receipt
